package session

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// sessionProcesses returns the IDs of the running processes in the session that leader
// leads, leader included. A zombie has ended and is not one of them.
func sessionProcesses(leader int) []int {
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // Only a malformed pattern is an error.
	var running []int
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue // it ended meanwhile
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			continue
		}
		if session, ended := parseStat(string(content)); !ended && (pid == leader || session == leader) {
			running = append(running, pid)
		}
	}
	return running
}

// parseStat returns a process' session ID and whether the process has ended, from the
// content of its /proc/PID/stat. Content that cannot be parsed counts as ended.
func parseStat(stat string) (session int, ended bool) {
	// The second field is the name in parentheses and may hold anything.
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	const stateField, sessionField = 0, 3 // fields 3 and 6, counted from the third
	if len(fields) <= sessionField || fields[stateField] == "Z" || fields[stateField] == "X" {
		return 0, true
	}
	session, err := strconv.Atoi(fields[sessionField])
	return session, err != nil
}
