// Package hostile puts hostile values into every field of custom resources, and gives them to a real API
// server: what that accepts, Go must decode, compare and count in bounded time. It has tests only.
package hostile
