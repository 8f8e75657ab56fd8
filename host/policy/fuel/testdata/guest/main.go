// Command guest is a Go library for tests: it uses what a policy uses of the runtime,
// maps, sorting, strings, garbage collection, interfaces.
package main

import (
	"fmt"
	"sort"
	"strings"
)

//go:wasmexport work
func work(n uint32) uint64 {
	words := map[string]int{}
	for i := range int(n) * 50 {
		words[fmt.Sprintf("word-%d", i%(int(n)+1))] += i
	}
	keys := make([]string, 0, len(words))
	for k := range words {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	sum := uint64(14695981039346656037)
	for _, b := range []byte(strings.Join(keys, ",")) {
		sum = (sum ^ uint64(b)) * 1099511628211
	}
	for _, k := range keys {
		sum += uint64(words[k])
	}
	return sum
}

func main() {}
