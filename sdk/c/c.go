// Package c holds the SDK for policies in C, one header, for programs that create or
// compile policies.
package c

import _ "embed"

// Header is the content of longshore.h.
//
//go:embed longshore.h
var Header string
