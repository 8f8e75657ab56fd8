//go:build !wasip1

package abi

import "bytes"

// Line is a line of the log.
type Line struct {
	Level   Level
	Message string
}

// Memory is what the stand-ins keep of a call.
type Memory struct {
	Output []byte
	Error  string
	Lines  []Line
}

var (
	input  []byte
	memory Memory
)

// Call runs an export natively on an input and returns its status and what it left
// behind. It is not safe for concurrent use, as an instance of a module is not.
func Call(data []byte, export func() int32) (int32, Memory) {
	input, memory = data, Memory{}
	status := export()
	left := memory
	input, memory = nil, Memory{}
	return status, left
}

// Input returns a copy of the call's input.
func Input() []byte { return bytes.Clone(input) }

// Output sets the call's output.
func Output(data []byte) { memory.Output = bytes.Clone(data) }

// Fail sets the call's error; the export must then return Failed.
func Fail(message string) { memory.Error = message }

// Log writes a line to the log.
func Log(level Level, message string) {
	memory.Lines = append(memory.Lines, Line{Level: level, Message: message})
}
