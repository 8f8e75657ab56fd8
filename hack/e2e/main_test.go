package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/longshore-dev/longshore/conformance/testplane/binary"
	"github.com/longshore-dev/longshore/hack/e2e/images"
	"github.com/longshore-dev/longshore/hack/e2e/isolate"
	"github.com/longshore-dev/longshore/hack/e2e/node"
)

const (
	// roleWorld is the process that runs the tests, in namespaces of its own.
	roleWorld = "world"
	// testPlaneVariable hands the path of the test plane to the processes in the namespaces.
	testPlaneVariable = binary.Environment
)

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
	stateDir   = root + "/.e2e"
	imageDir   = stateDir + "/images"
	longshore  = root + "/dist/e2e/longshore-e2e.tar"
	command    = root + "/bin/longshorectl"
	plugin     = root + "/bin/plugins/registryrewrite/module.wasm.gz"
	chartDir   = root + "/charts/longshore"
	lockedFile = root + "/.e2e.lock"
)

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
	if err := errors.Join(checkMachine(), prepare()); err != nil {
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
	return world.ProcessState.ExitCode(), errors.Join(err, removeCgroups())
}

// checkMachine returns an error that names all that is missing.
func checkMachine() error {
	var missing []string
	if os.Geteuid() != 0 {
		missing = append(missing, "root")
	}
	for _, name := range []string{"containerd", "containerd-shim-runc-v2", "ctr", "runc", "ip", "iptables", "mount"} {
		if _, err := exec.LookPath(name); err != nil {
			missing = append(missing, "the command "+name)
		}
	}
	for path, target := range map[string]string{longshore: "image", command: "build", plugin: "plugins"} {
		if _, err := os.Stat(path); err != nil {
			missing = append(missing, fmt.Sprintf("%s (made by `make e2e`, target %s)", filepath.Clean(path), target))
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the tests on real nodes need %s: run `make e2e` as root", strings.Join(missing, ", "))
	}
	return nil
}

// prepare removes what an earlier run left, and builds the images.
func prepare() error {
	ctx := context.Background()
	testPlane, err := binary.Locate(ctx)
	if err != nil {
		return err
	}
	if err := os.Setenv(testPlaneVariable, testPlane); err != nil {
		return fmt.Errorf("setting %s: %w", testPlaneVariable, err)
	}
	if err := removeCgroups(); err != nil {
		return fmt.Errorf("%w: does an earlier run still end? Try again", err)
	}
	if err := os.RemoveAll(stateDir); err != nil {
		return fmt.Errorf("removing the files of the last run: %w", err)
	}
	if err := os.MkdirAll(imageDir, 0o700); err != nil {
		return fmt.Errorf("creating the folder of images: %w", err)
	}
	if _, err := images.Build(ctx, "images", imageDir); err != nil {
		return err
	}
	// The name of the program is what it is.
	if err := os.Symlink(testPlane, stateDir+"/kubectl"); err != nil {
		return fmt.Errorf("linking kubectl: %w", err)
	}
	return nil
}

func removeCgroups() error {
	var errs []error
	for _, name := range []string{consumerID, providerID} {
		config, err := configOf(name)
		if err != nil {
			return err
		}
		errs = append(errs, node.RemoveCgroup(config.CgroupRoot()))
	}
	return errors.Join(errs...)
}
