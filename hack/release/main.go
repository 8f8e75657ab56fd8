// Command release builds what a release consists of: the container image as an OCI archive,
// longshorectl for each platform, and their bills of materials and checksums. It needs neither a
// container daemon nor a registry, and builds the same bytes from the same commit.
//
//	go run -C hack/release . image      # dist/longshore-VERSION.tar
//	go run -C hack/release . all        # and all else, into dist/
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// releasedPlatforms are those of the image of a release.
const releasedPlatforms = "linux/amd64,linux/arm64"

// release is one release of a clone.
type release struct {
	// root of the clone, and out, the folder of the results.
	root, out string
	version   string
	// date of the commit: the time of all files.
	date      time.Time
	platforms []platform
}

// platform is an operating system and an architecture, as Go names them.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	var (
		out       = flags.String("out", "dist", "folder of the results, relative to the clone")
		version   = flags.String("version", "", "version; empty asks git describe")
		platforms = flags.String("platforms", "", "platforms of the image, separated by commas; empty is this machine's for image, and linux/amd64,linux/arm64 for all")
	)
	if len(args) == 0 {
		return errors.New("usage: release image|all [--out DIR] [--version VERSION] [--platforms OS/ARCH,...]")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err // the flag package has printed the usage
	}
	of := cmp.Or(*platforms, "linux/"+runtime.GOARCH)
	if *platforms == "" && args[0] == "all" {
		of = releasedPlatforms
	}
	r, err := newRelease(ctx, *out, *version, of)
	if err != nil {
		return err
	}
	switch args[0] {
	case "image":
		_, err = r.image(ctx, "")
		return err
	case "all":
		return r.all(ctx)
	default:
		return fmt.Errorf("unknown target %q: it is image or all", args[0])
	}
}

func newRelease(ctx context.Context, out, version, platforms string) (*release, error) {
	root, err := git(ctx, "", "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	r := &release{root: root, out: filepath.Join(root, out), version: version}
	if filepath.IsAbs(out) {
		r.out = out
	}
	if r.version == "" {
		if r.version, err = git(ctx, root, "describe", "--tags", "--always", "--dirty"); err != nil {
			return nil, err
		}
	}
	date, err := git(ctx, root, "show", "--no-patch", "--format=%cI", "HEAD")
	if err != nil {
		return nil, err
	}
	if r.date, err = time.Parse(time.RFC3339, date); err != nil {
		return nil, fmt.Errorf("parsing the date of the commit: %w", err)
	}
	r.date = r.date.UTC()
	for name := range strings.SplitSeq(platforms, ",") {
		goos, arch, ok := strings.Cut(name, "/")
		if !ok || goos != "linux" {
			return nil, fmt.Errorf("the image cannot be built for %q: a platform is linux/ and an architecture", name)
		}
		r.platforms = append(r.platforms, platform{goos, arch})
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return nil, fmt.Errorf("creating the folder of the results: %w", err)
	}
	return r, nil
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// build builds a command of the clone for a platform. The result depends on neither the path
// of the clone nor the machine, but on the version of Go.
func (r *release) build(ctx context.Context, command string, p platform, to string) error {
	const versionVariable = "github.com/longshore-dev/longshore/host/kit/version.released"
	fmt.Fprintf(os.Stderr, "building %s for %s; with an empty build cache this takes minutes\n", command, p)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -buildid= -X "+versionVariable+"="+r.version, "-o", to, "./"+command)
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.root, os.Stderr, os.Stderr
	// The settings of a developer, such as build tags, do not change a release.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch, "GOFLAGS=-trimpath", "GOAMD64=v1", "GOARM64=v8.0", "GOWORK=off")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building %s for %s: %w", command, p, err)
	}
	return nil
}
