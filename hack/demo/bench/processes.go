package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/longshore-dev/longshore/hack/demo/rig"
)

const (
	// clockTicks is sysconf(_SC_CLK_TCK), the unit of times in /proc: 100 on Linux.
	clockTicks = 100
	bytesOfMiB = 1 << 20

	// benchProcess is this very process: the client, and both process nodes.
	benchProcess = "bench"
)

// usage is what a process has used so far.
type usage struct {
	// cpu is user and system time in seconds.
	cpu float64
	// rss is resident memory in MiB; anonymous is the part of it that is not a file's:
	// processes of the same program share the rest.
	rss, anonymous float64
}

// usages are by process: "longshore/manager@rome", "plane@milan", "kwok@milan", "bench".
type usages map[string]usage

// ours reports whether a process is one of Longshore's.
func ours(process string) bool { return strings.HasPrefix(process, "longshore/") }

// processes reads the usage of this process and of all that it started.
func processes(proc string, self int) (usages, error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	found := usages{}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		dir := filepath.Join(proc, entry.Name())
		content, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			continue // it has ended
		}
		stat, err := parseStat(content)
		if err != nil {
			return nil, fmt.Errorf("reading process %d: %w", pid, err)
		}
		if pid != self && stat.parent != self {
			continue
		}
		name := benchProcess
		if pid != self {
			arguments, err := os.ReadFile(filepath.Join(dir, "cmdline"))
			if err != nil {
				continue
			}
			folder, err := os.Readlink(filepath.Join(dir, "cwd"))
			if err != nil {
				continue
			}
			name = processName(strings.Split(strings.TrimRight(string(arguments), "\x00"), "\x00"), folder)
		}
		status, err := os.ReadFile(filepath.Join(dir, "status"))
		if err != nil {
			continue
		}
		u := found[name]
		u.cpu += stat.cpu
		u.rss += stat.rss
		u.anonymous += parseMemory(status, "RssAnon")
		found[name] = u
	}
	return found, nil
}

type processStat struct {
	parent   int
	cpu, rss float64
}

// parseStat reads /proc/PID/stat (proc(5)). The name in parentheses may hold anything.
func parseStat(content []byte) (processStat, error) {
	const ppid, utime, stime, rss = 1, 11, 12, 21 // counted from the state, the field after the name
	end := bytes.LastIndexByte(content, ')')
	if end < 0 {
		return processStat{}, fmt.Errorf("no name in %q", content)
	}
	fields := strings.Fields(string(content[end+1:]))
	if len(fields) <= rss {
		return processStat{}, fmt.Errorf("%d fields after the name in %q", len(fields), content)
	}
	var numbers [4]float64
	for i, at := range []int{ppid, utime, stime, rss} {
		n, err := strconv.ParseFloat(fields[at], 64)
		if err != nil {
			return processStat{}, fmt.Errorf("field %d after the name: %w", at, err)
		}
		numbers[i] = n
	}
	return processStat{
		parent: int(numbers[0]), cpu: (numbers[1] + numbers[2]) / clockTicks,
		rss: numbers[3] * float64(os.Getpagesize()) / bytesOfMiB,
	}, nil
}

// parseMemory returns the MiB of a field of /proc/PID/status; 0 when the
// kernel does not report it.
func parseMemory(content []byte, name string) float64 {
	kib, err := strconv.ParseFloat(strings.TrimSuffix(procField(content, name), " kB"), 64)
	if err != nil {
		return 0
	}
	return kib / 1024
}

// processName names a child by its arguments, and its cluster by the folder that it works
// in or that an argument names.
func processName(arguments []string, folder string) string {
	cluster := ""
	for _, name := range []string{rig.Consumer, rig.Provider} {
		if strings.Contains(folder+"/ "+strings.Join(arguments, "/ "), "/"+name+"/") {
			cluster = "@" + name
			break
		}
	}
	kind := "other/" + filepath.Base(arguments[0])
	for _, argument := range arguments[1:] {
		switch argument {
		case "cp":
			kind = "plane"
		case "kwok":
			kind = argument
		case "kubelet":
			kind = "longshore/virtual-kubelet"
		case "manager", "webhook", "replicator":
			kind = "longshore/" + argument
		default:
			continue
		}
		break
	}
	return kind + cluster
}
