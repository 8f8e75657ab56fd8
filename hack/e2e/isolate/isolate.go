// Package isolate runs this program again in namespaces of its own. What is started there ends
// with the first process there, also when that is killed: its processes, mounts and network
// interfaces are gone, and the machine's own are never touched.
package isolate

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// roleVariable is the environment variable that says what the program is in its namespaces.
const roleVariable = "LONGSHORE_E2E_ROLE"

// Role returns what this process is to do; "" is that of the first process, which a person
// started.
func Role() string { return os.Getenv(roleVariable) }

// Command returns a command that runs this program under a role, with the same arguments and
// the same environment, in network, mount and process ID namespaces of its own.
func Command(role string) *exec.Cmd {
	cmd := Again(role)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID}
	return cmd
}

// Again returns a command that runs this program under a role in the same namespaces.
func Again(role string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	return cmd
}

// Enter completes the namespaces of a process that Command started: no mount reaches the
// machine, and /proc shows the processes of the namespace.
func Enter() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making the mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	return nil
}

// Reap starts the command, waits until it ends, and returns its exit code. Meanwhile it takes
// the exit codes of orphans, which is the duty of the first process of a namespace.
func Reap(cmd *exec.Cmd) (int, error) {
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("starting %s: %w", cmd.Path, err)
	}
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return 0, fmt.Errorf("waiting for processes: %w", err)
		case pid == cmd.Process.Pid:
			if status.Signaled() {
				return 128 + int(status.Signal()), nil
			}
			return status.ExitStatus(), nil
		}
	}
}
