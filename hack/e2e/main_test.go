package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/longshore-dev/longshore/hack/e2e/clusters"
	"github.com/longshore-dev/longshore/hack/e2e/isolate"
	"github.com/longshore-dev/longshore/hack/e2e/node"
)

// roleWorld is the process that runs the tests, in namespaces of its own.
const roleWorld = "world"

func init() {
	// The death of the thread that started the world would end it; the main thread never ends.
	runtime.LockOSThread()
}

// TestMain runs the tests in network, mount and process ID namespaces of their own. When this
// process ends, however it ends, everything in them does.
func TestMain(m *testing.M) {
	code, err := 0, error(nil)
	switch isolate.Role() {
	case "":
		code, err = startWorld()
	case node.RoleFirst:
		code, err = node.First()
	case node.RoleSupervisor:
		err = node.Supervise(context.Background(), os.Stdin, os.Stdout)
	default:
		log.SetLogger(logr.Discard())
		if err = isolate.Enter(); err == nil {
			code = m.Run()
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "e2e: %v\n", err)
		code = 1
	}
	os.Exit(code)
}

// Paths, relative to this folder, which is the working directory of a test.
const (
	root       = "../.."
	plugin     = root + "/bin/plugins/registryrewrite/module.wasm.gz"
	lockedFile = root + "/.e2e.lock"

	// upgradeFolder is the part of the state with the clusters of the second test.
	upgradeFolder = "upgrade"
)

var files = clusters.Files{Root: root, State: root + "/.e2e"}

// startWorld prepares the folder of this run, and runs the tests in a world of their own.
func startWorld() (int, error) {
	lock, err := os.OpenFile(lockedFile, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return 1, fmt.Errorf("opening %s: %w", lockedFile, err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return 1, errors.New("another `make e2e` is working in this clone: wait for it, or end it first")
	}
	if err := prepare(); err != nil {
		return 1, err
	}
	world := isolate.Command(roleWorld)
	world.Stdout, world.Stderr = os.Stdout, os.Stderr
	world.SysProcAttr.Pdeathsig = syscall.SIGKILL
	// Ctrl-C reaches the tests, which end; then this process does.
	signal.Ignore(os.Interrupt)
	err = world.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = nil
	}
	return world.ProcessState.ExitCode(), errors.Join(err, files.RemoveCgroups("", upgradeFolder))
}

// prepare checks the machine, removes what an earlier run left, and builds the images.
func prepare() error {
	err := clusters.CheckMachine(map[string]string{files.Image(): "image", files.Longshorectl(): "build", plugin: "plugins"})
	if err != nil {
		return err
	}
	return files.Prepare(context.Background(), "", upgradeFolder)
}
