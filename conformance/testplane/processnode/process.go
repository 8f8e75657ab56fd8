package processnode

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// spawner starts children from one OS thread that lives until it is closed: the kernel
// sends a child its parent-death signal when the thread ends that started it, which for
// an ordinary goroutine's thread can be any time.
type spawner struct{ requests chan func() }

func newSpawner() *spawner {
	s := &spawner{requests: make(chan func())}
	go func() {
		// Not unlocked: the thread ends with the goroutine, and with it what is left.
		runtime.LockOSThread()
		for request := range s.requests {
			request()
		}
	}()
	return s
}

// close ends the thread, and so kills every child that still runs.
func (s *spawner) close() { close(s.requests) }

// process is a running container.
type process struct {
	cmd  *exec.Cmd
	log  *os.File
	done chan struct{}
	// exit is the exit code, 128 plus the number of the signal that ended it; endedBy
	// is that number, or 0; both valid after done.
	exit, endedBy int32

	mu     sync.Mutex
	reaped bool
}

// start runs a program in a process group of its own with its output in a file. The
// previous run's log is kept beside it.
func (s *spawner) start(program Program, env []string, dir, logFile string) (*process, error) {
	if err := os.MkdirAll(filepath.Dir(logFile), 0o755); err != nil {
		return nil, fmt.Errorf("making the log folder: %w", err)
	}
	if err := os.Rename(logFile, logFile+".1"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("rotating the log: %w", err)
	}
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	p := &process{log: log, done: make(chan struct{})}
	p.cmd = exec.Command(program.Path, program.Args...) // Its life is the pod's.
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
	// Until the leader is reaped no other process gets the group's number. So the rest of the
	// group is killed first, as a container ends with its first process.
	for errors.Is(unix.Waitid(unix.P_PID, p.pid(), nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
		continue
	}
	p.signal(syscall.SIGKILL)
	p.mu.Lock()
	p.reaped = true
	p.mu.Unlock()
	// The error is the exit status, which the process state has too.
	_ = p.cmd.Wait()
	status, _ := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	p.exit = int32(status.ExitStatus())
	if status.Signaled() {
		p.endedBy = int32(status.Signal())
		p.exit = exitSignaled + p.endedBy
	}
	_ = p.log.Close()
	close(p.done)
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// signal reaches the process and all of its group, until it is reaped.
func (p *process) signal(signal syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		// The only error is that the group is gone.
		_ = syscall.Kill(-p.pid(), signal)
	}
}
