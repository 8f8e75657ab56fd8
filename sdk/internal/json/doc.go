// Package json is a small validating JSON scanner and writer for guests.
//
// encoding/json costs a guest five times as much as the decision it is for
// and a third of the module's size, because
// it works by reflection. This package does without: a [Scanner] walks a document
// once, the caller picks members by name, and the Append functions write.
//
// It is strict: what it accepts is one valid JSON document in valid UTF-8, nested
// at most [MaxDepth] deep. encoding/json is its oracle in the fuzz tests.
package json
