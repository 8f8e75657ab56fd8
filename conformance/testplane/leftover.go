package testplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// record is a process of the cluster, stored in its directory. The start time distinguishes
// it from a later process with the same ID.
type record struct {
	Name    string `json:"name"`
	PID     int    `json:"pid"`
	Started string `json:"started"` // clock ticks since boot, as in /proc/PID/stat
}

const recordFolder = "processes"

// remember stores a process so that a later run can find it.
func (c *Cluster) remember(p *process) error {
	started, err := startTime(p.pid())
	if err != nil {
		// It has ended already; the caller that waits for it reports how.
		return nil
	}
	folder := c.path(recordFolder)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("creating the folder of process records: %w", err)
	}
	content, err := json.Marshal(record{Name: p.name, PID: p.pid(), Started: started})
	if err != nil {
		return fmt.Errorf("encoding a process record: %w", err)
	}
	return writePrivate(filepath.Join(folder, strconv.Itoa(p.pid())+".json"), content)
}

// forget removes the records of a stopped cluster.
func (c *Cluster) forget() error {
	if err := os.RemoveAll(c.path(recordFolder)); err != nil {
		return fmt.Errorf("removing the process records: %w", err)
	}
	return nil
}

// leftovers are the recorded processes of a directory that still run. Records that
// cannot be read count as ended: a run that was killed while writing one.
func leftovers(dir string) []record {
	files, err := filepath.Glob(filepath.Join(dir, recordFolder, "*.json"))
	if err != nil {
		return nil
	}
	var running []record
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		var r record
		if err := json.Unmarshal(content, &r); err != nil {
			continue
		}
		if r.runs() {
			running = append(running, r)
		}
	}
	return running
}

func (r record) runs() bool {
	started, err := startTime(r.PID)
	return err == nil && started == r.Started
}

// StopLeftover ends what an earlier run left in dir: a detached cluster, or one whose
// owner was killed and that has not noticed yet. It returns the names of what it ended.
// Only processes that dir recorded and that are provably the same are touched.
func StopLeftover(ctx context.Context, dir string) ([]string, error) {
	running := leftovers(dir)
	var names []string
	for _, r := range running {
		names = append(names, r.Name)
		if err := r.stop(ctx); err != nil {
			return names, fmt.Errorf("stopping %s (pid %d) of an earlier run: %w", r.Name, r.PID, err)
		}
	}
	if err := os.RemoveAll(filepath.Join(dir, recordFolder)); err != nil {
		return names, fmt.Errorf("removing the process records: %w", err)
	}
	return names, nil
}

func (r record) stop(ctx context.Context) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	signal, deadline := syscall.SIGTERM, time.Now().Add(stopGrace)
	for sent := syscall.Signal(0); r.runs(); {
		if ctx.Err() != nil || time.Now().After(deadline) {
			signal = syscall.SIGKILL
		}
		if sent != signal {
			if err := syscall.Kill(r.PID, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("sending %v: %w", signal, err)
			}
			sent = signal
		}
		<-tick.C
	}
	return nil
}

func describe(running []record) string {
	var parts []string
	for _, r := range running {
		parts = append(parts, fmt.Sprintf("%s (pid %d)", r.Name, r.PID))
	}
	return strings.Join(parts, ", ")
}

// startTime is when a process started, or an error when there is none (a zombie counts
// as none).
func startTime(pid int) (string, error) {
	content, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return "", fmt.Errorf("reading a process' state: %w", err)
	}
	// The second field is the name in parentheses and may hold anything.
	stat := string(content)
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	const state, started = 0, 19 // fields 3 and 22, counted from the third
	if len(fields) <= started || fields[state] == "Z" || fields[state] == "X" {
		return "", fmt.Errorf("no process %d: %w", pid, fs.ErrNotExist)
	}
	return fields[started], nil
}
