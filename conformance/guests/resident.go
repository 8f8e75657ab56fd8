package guests

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
)

// Memory is what the process holds in memory, in bytes.
type Memory struct {
	// Code is resident in executable mappings: the program's and that of modules.
	Code int64
	// Other is all else that is resident: linear memories, snapshots, the Go heap.
	Other int64
}

// Resident measures the process, after it gave back what is free. Linux only.
func Resident() (Memory, error) {
	runtime.GC()
	debug.FreeOSMemory()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return Memory{}, fmt.Errorf("reading the memory of the process: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	var m Memory
	executable := false
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) > 1 && strings.Contains(fields[0], "-") && len(fields[1]) == 4:
			executable = strings.Contains(fields[1], "x")
		case len(fields) > 1 && fields[0] == "Rss:":
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				return Memory{}, fmt.Errorf("reading the memory of the process: %w", err)
			}
			if executable {
				m.Code += kib << 10
			} else {
				m.Other += kib << 10
			}
		}
	}
	if err := lines.Err(); err != nil {
		return Memory{}, fmt.Errorf("reading the memory of the process: %w", err)
	}
	return m, nil
}
