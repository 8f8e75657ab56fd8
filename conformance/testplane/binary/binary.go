// Package binary finds and builds the test plane: etcd, the Kubernetes control plane,
// kubelet and kwok as one file, from the module conformance/testplane/kubernetes.
//
// Building takes minutes, so the file lives outside the clone, in the user's cache
// folder, under a key made of everything that goes into it: a second clone of the same
// revision finds it built. Tests only look it up; a missing file is an error that names the
// command, never a skipped test and never a build inside `go test`.
package binary

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// BuildCommand builds the test plane, from any folder of the clone's root module.
const BuildCommand = "go run ./conformance/testplane/cmd build"

// Environment names a ready-made test plane and so overrides the cache.
const Environment = "LONGSHORE_TESTPLANE"

// ErrMissing is returned if the test plane is not built yet.
var ErrMissing = errors.New("the test plane is not built")

const (
	modulePath = "github.com/longshore-dev/longshore"
	fileName   = "testplane"
)

// Locate returns the path of the built test plane of the clone that holds the working
// directory. It does not build; the error wraps ErrMissing and names the command.
func Locate(ctx context.Context) (string, error) {
	if path := os.Getenv(Environment); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%w: %s is set to %s: %w", ErrMissing, Environment, path, err)
		}
		return path, nil
	}
	t, err := newTarget(ctx)
	if err != nil {
		return "", err
	}
	if !t.exists() {
		return "", fmt.Errorf("%w (no %s): run `%s` in %s, it takes some minutes once",
			ErrMissing, t.path(), BuildCommand, t.root)
	}
	// prune keeps builds with recent times. Failing to set them costs at most a rebuild.
	now := time.Now()
	_ = os.Chtimes(t.path(), now, now)
	return t.path(), nil
}

// Path returns where the test plane of this clone is or would be.
func Path(ctx context.Context) (string, error) {
	t, err := newTarget(ctx)
	if err != nil {
		return "", err
	}
	return t.path(), nil
}

// target is one build of the test plane: what goes in, and where it comes out.
type target struct {
	root   string // of the clone
	source string // of the module conformance/testplane/kubernetes
	cache  string // folder of all builds
	key    string
	ld     string // linker flags
}

func newTarget(ctx context.Context) (*target, error) {
	root, err := findRoot()
	if err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("finding the user's cache folder: %w", err)
	}
	t := &target{
		root:   root,
		source: filepath.Join(root, "conformance", "testplane", "kubernetes"),
		cache:  filepath.Join(cache, "longshore", "testplane"),
	}
	if t.ld, err = t.linkerFlags(); err != nil {
		return nil, err
	}
	if t.key, err = t.hash(ctx); err != nil {
		return nil, err
	}
	return t, nil
}

func (t *target) dir() string  { return filepath.Join(t.cache, t.key) }
func (t *target) path() string { return filepath.Join(t.dir(), fileName) }

func (t *target) exists() bool {
	info, err := os.Stat(t.path())
	return err == nil && info.Mode().IsRegular()
}

// buildArgs are the arguments of go, without the output file.
func (t *target) buildArgs() []string {
	return []string{"build", "-trimpath", "-buildvcs=false", "-ldflags", t.ld}
}

// buildEnv fixes what would change the result or miss the build cache.
func buildEnv() []string {
	return append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
}

var kubernetesVersion = regexp.MustCompile(`(?m)^\s*(?:require )?k8s\.io/kubernetes v(\d+)\.(\d+)\.(\d+)`)

// linkerFlags set the version of the binary: without them the API server reports
// v0.0.0-master.
func (t *target) linkerFlags() (string, error) {
	mod, err := os.ReadFile(filepath.Join(t.source, "go.mod"))
	if err != nil {
		return "", fmt.Errorf("reading the test plane's go.mod: %w", err)
	}
	version := kubernetesVersion.FindSubmatch(mod)
	if version == nil {
		return "", fmt.Errorf("the test plane's go.mod requires no k8s.io/kubernetes")
	}
	const pkg = "-X k8s.io/component-base/version."
	return fmt.Sprintf("-s -w %[1]sgitVersion=v%[2]s.%[3]s.%[4]s %[1]sgitMajor=%[2]s %[1]sgitMinor=%[3]s %[1]sgitTreeState=clean %[1]sgitCommit=",
		pkg, version[1], version[2], version[3]), nil
}

// hash is the key: sources, module files, Go version and platform, flags.
func (t *target) hash(ctx context.Context) (string, error) {
	sum := sha256.New()
	entries, err := os.ReadDir(t.source)
	if err != nil {
		return "", fmt.Errorf("reading the test plane's sources: %w", err)
	}
	for _, entry := range entries {
		name := entry.Name()
		source := strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
		if !source && name != "go.mod" && name != "go.sum" {
			continue
		}
		if err := hashFile(sum, t.source, name); err != nil {
			return "", err
		}
	}
	command := exec.CommandContext(ctx, "go", "env", "GOVERSION", "GOOS", "GOARCH")
	command.Dir, command.Env = t.source, buildEnv()
	toolchain, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("asking go for its version: %w", err)
	}
	fmt.Fprintf(sum, "%s\n%s\n", toolchain, strings.Join(t.buildArgs(), "\n"))
	return hex.EncodeToString(sum.Sum(nil))[:24], nil
}

func hashFile(sum io.Writer, dir, name string) error {
	content, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return fmt.Errorf("reading the test plane's sources: %w", err)
	}
	fmt.Fprintf(sum, "%s %d\n", name, len(content))
	if _, err := sum.Write(content); err != nil {
		return fmt.Errorf("hashing %s: %w", name, err)
	}
	return nil
}

// findRoot walks up from the working directory to the root module.
func findRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the working directory: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil {
			first, _, _ := strings.Cut(string(mod), "\n")
			if strings.TrimSpace(first) == "module "+modulePath {
				return dir, nil
			}
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("looking for the clone's root: %w", err)
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod of %s at or above %s: run this inside a clone, or set %s",
				modulePath, start, Environment)
		}
	}
}
