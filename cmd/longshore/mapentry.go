package main

import (
	"fmt"
	"strconv"
)

// mapEntry is a flag that sets one entry of a map.
type mapEntry struct {
	m   map[string]string
	key string
}

// String implements pflag.Value.
func (e mapEntry) String() string { return e.m[e.key] }

// Set implements pflag.Value.
func (e mapEntry) Set(value string) error {
	e.m[e.key] = value
	return nil
}

// Type implements pflag.Value.
func (e mapEntry) Type() string { return "string" }

// workerCount is a flag that sets one entry of a map to a number.
type workerCount struct {
	m   map[string]int
	key string
}

// String implements pflag.Value.
func (e workerCount) String() string { return strconv.Itoa(e.m[e.key]) }

// Set implements pflag.Value.
func (e workerCount) Set(value string) error {
	n, err := strconv.ParseUint(value, 10, 16)
	if err != nil {
		return fmt.Errorf("%q is no number of workers", value)
	}
	e.m[e.key] = int(n)
	return nil
}

// Type implements pflag.Value.
func (e workerCount) Type() string { return "uint" }
