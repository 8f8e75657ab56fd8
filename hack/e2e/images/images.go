// Package images builds the images of the tests: of one layer with one static binary, without
// a container daemon and without a registry.
package images

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Names of the images, as pods name them.
const (
	App     = "longshore/e2e-app:1"
	Pause   = "longshore/e2e-pause:1"
	DNS     = "longshore/e2e-dns:1"
	Metrics = "longshore/e2e-metrics:1"
)

// image is what one image is made of.
type image struct {
	name string
	// source is the folder of the command, module that of its Go module below the sources, and
	// path its place in the image; links are other names of it.
	module, source, path string
	links                []string
}

var all = []image{
	{name: App, source: "app", path: "app", links: []string{"bin/tar", "bin/test"}},
	{name: Pause, source: "pause", path: "pause"},
	{name: DNS, module: "addons", source: "dns", path: "dns"},
	{name: Metrics, module: "addons", source: "metrics", path: "metrics"},
}

// Build builds all images from the sources in the folder of this package, and returns their
// archives in the folder dir.
func Build(ctx context.Context, sources, dir string) ([]string, error) {
	var archives []string
	for _, i := range all {
		archive, err := i.build(ctx, sources, dir)
		if err != nil {
			return nil, fmt.Errorf("building the image %s: %w", i.name, err)
		}
		archives = append(archives, archive)
	}
	return archives, nil
}

func (i image) build(ctx context.Context, sources, dir string) (string, error) {
	binary, err := filepath.Abs(filepath.Join(dir, i.source))
	if err != nil {
		return "", fmt.Errorf("resolving %s: %w", dir, err)
	}
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", binary, "./"+i.source)
	build.Dir, build.Env, build.Stderr = filepath.Join(sources, i.module), append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("compiling it: %w", err)
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return "", fmt.Errorf("reading the binary: %w", err)
	}
	data, err := i.layer(content)
	if err != nil {
		return "", err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil })
	if err != nil {
		return "", fmt.Errorf("making the layer: %w", err)
	}
	base, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS: "linux", Architecture: runtime.GOARCH, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{Entrypoint: []string{"/" + i.path}, Env: []string{"PATH=/:/bin"}, WorkingDir: "/"},
	})
	if err != nil {
		return "", fmt.Errorf("setting the configuration: %w", err)
	}
	made, err := mutate.AppendLayers(base, layer)
	if err != nil {
		return "", fmt.Errorf("adding the layer: %w", err)
	}
	tag, err := name.NewTag(i.name)
	if err != nil {
		return "", fmt.Errorf("reading the name: %w", err)
	}
	archive := binary + ".tar"
	if err := tarball.WriteToFile(archive, tag, made); err != nil {
		return "", fmt.Errorf("writing the archive: %w", err)
	}
	return archive, nil
}

// layer returns the files of the image. All users may write in /tmp.
func (i image) layer(binary []byte) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	headers := []*tar.Header{
		{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777},
		{Name: "bin/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: i.path, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(binary))},
	}
	for _, link := range i.links {
		headers = append(headers, &tar.Header{Name: link, Typeflag: tar.TypeSymlink, Linkname: "/" + i.path, Mode: 0o777})
	}
	for _, header := range headers {
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("writing the layer: %w", err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if _, err := w.Write(binary); err != nil {
			return nil, fmt.Errorf("writing the layer: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("writing the layer: %w", err)
	}
	return out.Bytes(), nil
}
