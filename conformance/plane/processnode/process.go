package processnode

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
)

// spawner starts children from one OS thread that lives as long as this process: the
// kernel sends a child its parent-death signal when the thread ends that started it.
type spawner struct{ requests chan func() }

func newSpawner() *spawner {
	s := &spawner{requests: make(chan func())}
	go func() {
		runtime.LockOSThread()
		for request := range s.requests {
			request()
		}
	}()
	return s
}

// process is a running container.
type process struct {
	cmd  *exec.Cmd
	log  *os.File
	done chan struct{}
	// exit is the exit code, 128 plus the signal's number when a signal ended it; valid
	// after done.
	exit int
}

// start runs a program in a process group of its own with its output in a file. The
// previous run's log is kept beside it.
func (s *spawner) start(program Program, env []string, dir, logFile string) (*process, error) {
	if err := os.MkdirAll(filepath.Dir(logFile), 0o755); err != nil {
		return nil, fmt.Errorf("making the log folder: %w", err)
	}
	if _, err := os.Stat(logFile); err == nil {
		if err := os.Rename(logFile, logFile+".1"); err != nil {
			return nil, fmt.Errorf("rotating the log: %w", err)
		}
	}
	log, err := os.Create(logFile)
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	p := &process{log: log, done: make(chan struct{})}
	p.cmd = exec.Command(program.Path, program.Args...) //nolint:noctx // Its life is the pod's.
	p.cmd.Env, p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = env, dir, log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	s.requests <- func() { started <- p.cmd.Start() }
	if err := <-started; err != nil {
		_ = log.Close()
		return nil, fmt.Errorf("starting %s: %w", program.Path, err)
	}
	go p.wait()
	return p, nil
}

func (p *process) wait() {
	// The error is the exit status, which the process state says too.
	_ = p.cmd.Wait()
	status, _ := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	p.exit = status.ExitStatus()
	if status.Signaled() {
		p.exit = 128 + int(status.Signal())
	}
	_ = p.log.Close()
	close(p.done)
}

// signal reaches the process and all that it started.
func (p *process) signal(signal syscall.Signal) {
	// A group that has ended needs no signal.
	_ = syscall.Kill(-p.cmd.Process.Pid, signal)
}
