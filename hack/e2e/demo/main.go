// Command demo runs two clusters with a real node each in namespaces of their own, installs
// Longshore in both and shows pods of one that run in the other: `make demo NODES=real`, as root,
// and `make demo-down`.
//
// The clusters belong to one process, the first of their namespaces, which goes on after the
// command. When it ends, the kernel ends all that it has started.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/longshore-dev/longshore/cmd/longshorectl/console"
	"github.com/longshore-dev/longshore/hack/e2e/clusters"
	"github.com/longshore-dev/longshore/hack/e2e/isolate"
	"github.com/longshore-dev/longshore/hack/e2e/node"
)

const (
	// roleWorld is the process to which the clusters belong.
	roleWorld = "world"
	// File descriptors that it gets: the lock, and the pipe on which it says that it is ready.
	lockDescriptor  = 3
	readyDescriptor = 4

	endTimeout = 15 * time.Second
	endPoll    = 100 * time.Millisecond
)

// files are relative to the folder of the clone, in which make runs the command.
var files = clusters.Files{Root: ".", State: ".demo-real"}

func path(name string) string { return filepath.Join(files.State, name) }

func init() {
	// The death of the thread that started a node would end it; the main thread never ends.
	runtime.LockOSThread()
}

func main() {
	code, err := 0, error(nil)
	switch isolate.Role() {
	case node.RoleFirst:
		code, err = node.First()
	case node.RoleSupervisor:
		err = node.Supervise(context.Background(), os.Stdin, os.Stdout)
	case roleWorld:
		err = runWorld()
	default:
		err = command(os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		code = 1
	}
	os.Exit(code)
}

func command(args []string) error {
	if len(args) == 1 && args[0] == "up" {
		return up()
	}
	if len(args) == 1 && args[0] == "down" {
		return down(console.New(os.Stdout))
	}
	return errors.New("usage: demo up|down")
}

// lock locks the demo of this clone. The lock is held as long as a process has the file open.
func lock() (*os.File, error) {
	file, err := os.OpenFile(files.State+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(errBusy, file.Close())
	}
	return file, nil
}

var errBusy = errors.New("the demo runs already, or another command works on it: `make demo-down` ends it")

// up starts the world, and returns when that has shown all.
func up() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	held, err := lock()
	if err != nil {
		return err
	}
	defer held.Close()
	out := console.New(os.Stdout)
	err = out.Step("Building the images of the nodes", func(func(string)) error {
		err := clusters.CheckMachine(map[string]string{files.Image(): "image", files.Longshorectl(): "build"})
		if err != nil {
			return err
		}
		return files.Prepare(ctx, "")
	})
	if err != nil {
		return err
	}
	ready, tell, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("opening a pipe: %w", err)
	}
	defer ready.Close()
	world := isolate.Command(roleWorld)
	// A Ctrl-C in this terminal does not reach it.
	world.SysProcAttr.Setsid = true
	world.Stdout, world.Stderr, world.ExtraFiles = os.Stdout, os.Stderr, []*os.File{held, tell}
	if err := errors.Join(world.Start(), tell.Close()); err != nil {
		return fmt.Errorf("starting the clusters: %w", err)
	}
	if err := os.WriteFile(path("pid"), []byte(strconv.Itoa(world.Process.Pid)), 0o600); err != nil {
		return errors.Join(fmt.Errorf("writing the process ID: %w", err), world.Process.Kill())
	}
	stopped := context.AfterFunc(ctx, func() { _ = world.Process.Kill() })
	defer stopped()
	if n, _ := ready.Read(make([]byte, 1)); n == 1 && ctx.Err() == nil {
		return nil
	}
	// It says itself why.
	_ = world.Wait()
	if err := ended(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errors.New("interrupted; what was started is stopped")
	}
	return fmt.Errorf("the demo ended and left nothing running: logs are in %s", files.State)
}

// down ends the world, and nothing else.
func down(out *console.Console) error {
	held, err := lock()
	if err == nil {
		out.Line("No demo with real nodes is running.")
		return errors.Join(ended(), held.Close())
	}
	if !errors.Is(err, errBusy) {
		return err
	}
	return out.Step("Stopping the demo with real nodes", func(func(string)) error {
		content, err := os.ReadFile(path("pid"))
		if err != nil {
			return fmt.Errorf("reading the process ID: %w: is `make demo` still preparing?", err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
		if err != nil {
			return fmt.Errorf("reading the process ID: %w", err)
		}
		// The process has the lock, so that the ID is its own.
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			return fmt.Errorf("ending process %d: %w", pid, err)
		}
		return ended()
	})
}

// ended removes what is left of a world that has ended, its data and logs excepted.
func ended() error {
	if err := removeCgroups(); err != nil {
		return err
	}
	if err := os.Remove(path("pid")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the process ID: %w", err)
	}
	return nil
}

// removeCgroups removes the cgroups when all processes in them have ended.
func removeCgroups() error {
	end := time.Now().Add(endTimeout)
	for {
		err := files.RemoveCgroups("")
		if err == nil || time.Now().After(end) {
			return err
		}
		time.Sleep(endPoll)
	}
}
