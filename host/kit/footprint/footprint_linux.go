package footprint

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

func dropExecutable() error {
	executable, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the own executable: %w", err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return fmt.Errorf("reading the own mappings: %w", err)
	}
	for _, m := range readOnly(maps, executable) {
		if _, _, errno := syscall.Syscall(syscall.SYS_MADVISE, m.start, m.end-m.start, syscall.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("dropping the executable's pages: %w", errno)
		}
	}
	return nil
}

// mapping is a range of addresses.
type mapping struct{ start, end uintptr }

// readOnly finds the mappings of a file that nobody can write to: what is dropped of
// them is the same when it comes back.
func readOnly(maps []byte, file string) []mapping {
	var found []mapping
	lines := bufio.NewScanner(bytes.NewReader(maps))
	for lines.Scan() {
		// start-end permissions offset device inode path
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || strings.Join(fields[5:], " ") != file || strings.Contains(fields[1], "w") {
			continue
		}
		from, to, _ := strings.Cut(fields[0], "-")
		start, startErr := strconv.ParseUint(from, 16, 64)
		end, endErr := strconv.ParseUint(to, 16, 64)
		if startErr == nil && endErr == nil && end > start {
			found = append(found, mapping{uintptr(start), uintptr(end)})
		}
	}
	return found
}
