// Command probe is a Go guest that misbehaves in every way that tests ask for. Its
// input is the name of the way, or text to echo.
package main

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
	"unsafe"
)

//go:wasmimport extism:host/env input_length
func inputLength() uint64

//go:wasmimport extism:host/env input_load_u8
func inputLoadU8(offset uint64) uint32

//go:wasmimport extism:host/env input_load_u64
func inputLoadU64(offset uint64) uint64

//go:wasmimport extism:host/env alloc
func alloc(size uint64) uint64

//go:wasmimport extism:host/env length
func length(offset uint64) uint64

//go:wasmimport extism:host/env load_u8
func loadU8(offset uint64) uint32

//go:wasmimport extism:host/env store_u8
func storeU8(offset uint64, value uint32)

//go:wasmimport extism:host/env store_u64
func storeU64(offset, value uint64)

//go:wasmimport extism:host/env output_set
func outputSet(offset, length uint64)

//go:wasmimport extism:host/env error_set
func errorSet(offset uint64)

//go:wasmimport extism:host/env log_info
func logInfo(offset uint64)

//go:wasmimport extism:host/env log_warn
func logWarn(offset uint64)

//go:wasmimport extism:host/env var_set
func varSet(name, value uint64)

//go:wasmimport extism:host/env var_get
func varGet(name uint64) uint64

//go:wasmimport extism:host/env config_get
func configGet(name uint64) uint64

//go:wasmimport extism:host/env http_request
func httpRequest(request, body uint64) uint64

func input() []byte {
	n := inputLength()
	data := make([]byte, n)
	i := uint64(0)
	for ; i+8 <= n; i += 8 {
		*(*uint64)(unsafe.Pointer(&data[i])) = inputLoadU64(i)
	}
	for ; i < n; i++ {
		data[i] = byte(inputLoadU8(i))
	}
	return data
}

func block(text string) uint64 {
	offset := alloc(uint64(len(text)))
	for i := range len(text) {
		storeU8(offset+uint64(i), uint32(text[i]))
	}
	return offset
}

func read(offset uint64) string {
	data := make([]byte, length(offset))
	for i := range data {
		data[i] = byte(loadU8(offset + uint64(i)))
	}
	return string(data)
}

func answer(text string) int32 {
	outputSet(block(text), uint64(len(text)))
	return 0
}

var (
	calls int
	kept  [][]byte
	sink  int
)

//go:noinline
func recurse(n int) int {
	if n < 0 {
		return 0
	}
	return recurse(n+1) + 1
}

// world tells all that a guest can learn of the world outside, and of earlier calls.
func world() string {
	calls++
	seed := make([]byte, 16)
	rand.Read(seed)
	order := ""
	for k := range map[int]bool{1: true, 2: true, 3: true, 4: true, 5: true, 6: true} {
		order += fmt.Sprint(k)
	}
	_, err := os.Open("/etc/passwd")
	return fmt.Sprintf("calls=%d random=%s map=%s now=%d args=%q env=%d file=%v", calls, hex.EncodeToString(seed), order, time.Now().UnixNano(), os.Args, len(os.Environ()), err != nil)
}

func spin() {
	for {
		sink++
	}
}

func deadlock() {
	var m sync.Mutex
	m.Lock()
	m.Lock()
}

func goroutines() int32 {
	var wait sync.WaitGroup
	results := make(chan int, 10)
	for i := range 10 {
		wait.Add(1)
		go func() { defer wait.Done(); results <- i }()
	}
	wait.Wait()
	return answer(fmt.Sprint(len(results)))
}

func sleep() int32 {
	before := time.Now()
	time.Sleep(10 * time.Second)
	return answer(time.Since(before).String())
}

func variables() int32 {
	name := block("name")
	before := varGet(name)
	varSet(name, block("value"))
	return answer(fmt.Sprintf("before=%d then=%s config=%d", before, read(varGet(name)), configGet(name)))
}

func main() {}

//go:wasmexport probe
func probe() int32 {
	text := string(input())
	command, rest, _ := strings.Cut(text, " ")
	if act := acts[command]; act != nil {
		return act(rest)
	}
	return answer(text)
}

var acts map[string]func(string) int32

func init() {
	acts = map[string]func(string) int32{
		"world":      func(string) int32 { return answer(world()) },
		"spin":       func(string) int32 { spin(); return 0 },
		"recurse":    func(string) int32 { return answer(fmt.Sprint(recurse(0))) },
		"panic":      func(why string) int32 { panic(why) },
		"nil":        func(string) int32 { var p *int; return int32(*p) },
		"deadlock":   func(string) int32 { deadlock(); return 0 },
		"exit0":      func(string) int32 { answer("not an answer"); os.Exit(0); return 0 },
		"exit3":      func(string) int32 { os.Exit(3); return 0 },
		"silent":     func(string) int32 { return 0 },
		"return5":    func(string) int32 { answer("x"); return 5 },
		"fail":       func(why string) int32 { errorSet(block(why)); return 1 },
		"failzero":   func(why string) int32 { answer("x"); errorSet(block(why)); return 0 },
		"oversize":   func(string) int32 { return answer(strings.Repeat("x", 300<<10)) },
		"range":      func(string) int32 { outputSet(1<<20, 10); return 0 },
		"rangewrap":  func(string) int32 { outputSet(^uint64(0)-3, 100); return 0 },
		"rangelow":   func(string) int32 { outputSet(8, 8); return 0 },
		"store":      func(string) int32 { storeU64(1<<20, 1); return 0 },
		"load":       func(string) int32 { return int32(loadU8(1 << 40)) },
		"exhaust":    func(string) int32 { block(strings.Repeat("x", 1)); alloc(1 << 30); return 0 },
		"http":       func(string) int32 { return int32(httpRequest(block(`{"url":"http://example.com"}`), 0)) },
		"goroutines": func(string) int32 { return goroutines() },
		"sleep":      func(string) int32 { return sleep() },
		"variables":  func(string) int32 { return variables() },
		"stderr":     func(text string) int32 { fmt.Fprintln(os.Stderr, text); return answer("written") },
		"flood":      func(string) int32 { fmt.Fprint(os.Stderr, strings.Repeat("flood ", 10_000)); return answer("written") },
		"log": func(text string) int32 {
			logInfo(block(text))
			logWarn(block("second"))
			return answer("logged")
		},
		"loglots": func(string) int32 {
			for range 100 {
				logInfo(block(strings.Repeat("y", 2000)))
			}
			return answer("logged")
		},
		"grow": func(string) int32 { kept = append(kept, make([]byte, 4<<20)); return answer("grown") },
		"hog": func(string) int32 {
			for {
				kept = append(kept, make([]byte, 1<<20))
			}
		},
		"lengths": func(string) int32 {
			b := block("12345")
			return answer(fmt.Sprint(length(b), length(b+1), length(b+8), length(0), length(64), length(1<<40), alloc(0)))
		},
	}
}
