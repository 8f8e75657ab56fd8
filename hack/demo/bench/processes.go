package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
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
	// processes of the same program share the rest. Peak is the largest rss so far.
	rss, anonymous, peak float64
}

// usages are by process: "longshore/manager@rome", "plane@milan", "kwok@milan", "bench".
type usages map[string]usage

// ours reports whether a process is one of Longshore's.
func ours(process string) bool { return strings.HasPrefix(process, "longshore/") }

// webhooks reports whether a process is a webhook of Longshore.
func webhooks(process string) bool { return strings.HasPrefix(process, "longshore/webhook") }

// sum adds up what of returns of the processes that keep wants.
func (u usages) sum(keep func(string) bool, of func(usage) float64) float64 {
	total := 0.0
	for process, used := range u {
		if keep(process) {
			total += of(used)
		}
	}
	return total
}

// cpuBetween is the time used by the processes that keep wants, of those that live.
func cpuBetween(before, after usages, keep func(string) bool) float64 {
	total := 0.0
	for process, u := range after {
		if keep(process) {
			total += u.cpu - before[process].cpu
		}
	}
	return total
}

// process is a running process, and its folder in /proc.
type process struct {
	name, dir string
	stat      processStat
}

// list returns this process and all that it started.
func list(proc string, self int) ([]process, error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var found []process
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
		found = append(found, process{name: name, dir: dir, stat: stat})
	}
	return found, nil
}

// processes reads the usage of this process and of all that it started.
func processes(proc string, self int) (usages, error) {
	all, err := list(proc, self)
	if err != nil {
		return nil, err
	}
	found := usages{}
	for _, p := range all {
		status, err := os.ReadFile(filepath.Join(p.dir, "status"))
		if err != nil {
			continue // it has ended
		}
		u := found[p.name]
		u.cpu += p.stat.cpu
		u.rss += p.stat.rss
		u.anonymous += parseMemory(status, "RssAnon")
		u.peak += parseMemory(status, "VmHWM")
		found[p.name] = u
	}
	return found, nil
}

// clearReferenced makes the kernel forget which pages the processes have referenced.
func clearReferenced(proc string, self int) error {
	all, err := list(proc, self)
	if err != nil {
		return err
	}
	for _, p := range all {
		if err := os.WriteFile(filepath.Join(p.dir, "clear_refs"), []byte("1"), 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("clearing the referenced pages of %s: %w", p.name, err)
		}
	}
	return nil
}

// workingSets returns, by process, the MiB that were referenced since clearReferenced.
func workingSets(proc string, self int) (map[string]float64, error) {
	all, err := list(proc, self)
	if err != nil {
		return nil, err
	}
	found := map[string]float64{}
	for _, p := range all {
		memory, err := os.ReadFile(filepath.Join(p.dir, "smaps_rollup"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the memory of %s: %w", p.name, err)
		}
		found[p.name] += parseMemory(memory, "Referenced")
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

// parseMemory returns the MiB of a field of /proc/PID/status or smaps_rollup; 0 when the
// kernel does not report it.
func parseMemory(content []byte, name string) float64 {
	kib, err := strconv.ParseFloat(strings.TrimSuffix(procField(bytes.NewReader(content), name), " kB"), 64)
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
		case "kwok", "kube-controller-manager", "kube-scheduler":
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
