package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/distribution/reference"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	// repository is the name of the image in the chart's values.
	repository = "longshore/longshore"
	// binaryPath is the command of the chart's workloads, and kubeletPath of virtual kubelets.
	binaryPath  = "/usr/bin/longshore"
	kubeletPath = "/usr/bin/virtual-kubelet"
	// policiesPath is the default of --precompiled-policy-dir.
	policiesPath = "/usr/share/longshore/policies"
	// user is that of the chart's workloads; not root, also where a pod does not choose one.
	user = "1000:1000"
)

// entry is a file, folder or link of an image.
type entry struct {
	path string
	// data of a file; link is the target of a link. A folder has neither.
	data []byte
	link string
	mode fs.FileMode
}

// server returns the name of the file with longshore for a platform.
func (r *release) server(p platform) string {
	return fmt.Sprintf("longshore-%s-%s-%s", r.version, p.os, p.arch)
}

// image builds the image for all platforms and returns the path of its archive. The binaries of the
// image stay in a folder, if it is not empty.
func (r *release) image(ctx context.Context, binaries string) (string, error) {
	// A build takes minutes.
	for _, p := range r.platforms {
		if _, err := emulated(p, ""); err != nil {
			return "", err
		}
	}
	work, err := os.MkdirTemp("", "longshore-release-")
	if err != nil {
		return "", fmt.Errorf("creating a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	images := map[platform]v1.Image{}
	for _, p := range r.platforms {
		entries, err := r.content(ctx, p, filepath.Join(cmp.Or(binaries, work), r.server(p)), filepath.Join(work, p.arch, "policies"))
		if err != nil {
			return "", err
		}
		if images[p], err = assemble(entries, p, r.version, r.date); err != nil {
			return "", err
		}
	}
	index, err := indexOf(images, r.platforms)
	if err != nil {
		return "", err
	}
	digest, err := index.Digest()
	if err != nil {
		return "", fmt.Errorf("computing the digest of the image: %w", err)
	}
	archive := filepath.Join(r.out, "longshore-"+r.version+".tar")
	if err := writeArchive(archive, filepath.Join(work, "layout"), index, repository+":"+r.version, r.date); err != nil {
		return "", err
	}
	fmt.Printf("%s  %s:%s  %s\n", archive, repository, r.version, digest)
	return archive, nil
}

// content builds the files of the image for a platform: the binary, and the policies in a folder.
func (r *release) content(ctx context.Context, p platform, binary, policies string) ([]entry, error) {
	if err := r.build(ctx, "cmd/longshore", p, binary); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("reading the binary: %w", err)
	}
	entries := []entry{{path: binaryPath, data: data, mode: 0o755}, {path: kubeletPath, link: filepath.Base(binaryPath)}}
	command, err := emulated(p, binary)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, command[0], append(command[1:], "precompile-policies", policies)...)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("compiling the built-in policies for %s: %w", p, err)
	}
	compiled, err := readTree(policies, policiesPath)
	return append(entries, compiled...), err
}

// emulated returns the command that runs a binary of a platform here. Machine code of policies
// is made by the compiler of that platform.
func emulated(p platform, binary string) ([]string, error) {
	emulator := map[string]string{"arm64": "qemu-aarch64-static", "amd64": "qemu-x86_64-static"}[p.arch]
	switch {
	case p.arch == runtime.GOARCH:
		return []string{binary}, nil
	case emulator == "":
		return nil, fmt.Errorf("the built-in policies cannot be compiled for %s", p)
	}
	if _, err := exec.LookPath(emulator); err != nil {
		return nil, fmt.Errorf("the built-in policies are compiled for %s with %s: install the package qemu-user-static", p, emulator)
	}
	return []string{emulator, binary}, nil
}

// readTree returns the files below a folder, under another path.
func readTree(dir, under string) ([]entry, error) {
	var entries []entry
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		entries = append(entries, entry{path: filepath.Join(under, name), data: data, mode: 0o644})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the compiled policies: %w", err)
	}
	if len(entries) == 0 {
		return nil, errors.New("no policies were compiled: this is a bug")
	}
	return entries, nil
}

// assemble makes an image of one layer.
func assemble(entries []entry, p platform, version string, date time.Time) (v1.Image, error) {
	content, err := layerOf(entries, date)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("making the layer: %w", err)
	}
	image := mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1)
	if image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: date}, CreatedBy: "hack/release"}}); err != nil {
		return nil, fmt.Errorf("adding the layer: %w", err)
	}
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		Architecture: p.arch, OS: p.os, Created: v1.Time{Time: date},
		RootFS:  configOf(image).RootFS,
		History: configOf(image).History,
		Config: v1.Config{
			Entrypoint: []string{binaryPath}, User: user, WorkingDir: "/",
			Labels: map[string]string{
				"org.opencontainers.image.title": "longshore", "org.opencontainers.image.version": version,
				"org.opencontainers.image.source": "https://github.com/longshore-dev/longshore", "org.opencontainers.image.licenses": "Apache-2.0",
			},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("setting the configuration of the image: %w", err)
	}
	return image, nil
}

func configOf(image v1.Image) *v1.ConfigFile {
	config, err := image.ConfigFile()
	if err != nil {
		return &v1.ConfigFile{}
	}
	return config
}

// layerOf returns the tar of entries and the folders that they need, in a fixed order.
func layerOf(entries []entry, date time.Time) ([]byte, error) {
	all := slices.Clone(entries)
	seen := map[string]bool{"/": true}
	for _, e := range entries {
		for dir := filepath.Dir(e.path); !seen[dir]; dir = filepath.Dir(dir) {
			seen[dir] = true
			all = append(all, entry{path: dir, mode: fs.ModeDir | 0o755})
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return bytes.Compare([]byte(a.path), []byte(b.path)) })
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range all {
		header := &tar.Header{Name: e.path[1:], Mode: int64(e.mode.Perm()), ModTime: date, Size: int64(len(e.data)), Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		switch {
		case e.link != "":
			header.Typeflag, header.Linkname, header.Mode = tar.TypeSymlink, e.link, 0o777
		case e.mode.IsDir():
			header.Typeflag, header.Name = tar.TypeDir, header.Name+"/"
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("writing %s into the layer: %w", e.path, err)
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, fmt.Errorf("writing %s into the layer: %w", e.path, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("writing the layer: %w", err)
	}
	return out.Bytes(), nil
}

// indexOf returns the index of the images of all platforms.
func indexOf(images map[platform]v1.Image, order []platform) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range order {
		image, ok := images[p]
		if !ok {
			return nil, fmt.Errorf("there is no image for %s: this is a bug", p)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}},
		})
	}
	return index, nil
}

// writeArchive writes the OCI layout of an image as a tar. Its index names the image as
// containerd and Docker read it.
func writeArchive(archive, dir string, index v1.ImageIndex, name string, date time.Time) error {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return fmt.Errorf("%q does not name an image: %w", name, err)
	}
	root := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{
		Add: index, Descriptor: v1.Descriptor{Annotations: map[string]string{
			"org.opencontainers.image.ref.name": name, "io.containerd.image.name": named.String(),
		}},
	})
	if _, err := layout.Write(dir, root); err != nil {
		return fmt.Errorf("writing the image: %w", err)
	}
	entries, err := readTree(dir, "/")
	if err != nil {
		return err
	}
	data, err := layerOf(entries, date)
	if err != nil {
		return err
	}
	if err := os.WriteFile(archive, data, 0o644); err != nil {
		return fmt.Errorf("writing the archive: %w", err)
	}
	return nil
}
