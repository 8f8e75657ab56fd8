package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// clients are the platforms of longshorectl.
var clients = []platform{
	{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"},
}

// all builds everything of a release.
func (r *release) all(ctx context.Context) error {
	archive, err := r.image(ctx, r.out)
	if err != nil {
		return err
	}
	files := []string{archive}
	for _, p := range clients {
		name := fmt.Sprintf("longshorectl-%s-%s-%s", r.version, p.os, p.arch)
		if p.os == "windows" {
			name += ".exe"
		}
		path := filepath.Join(r.out, name)
		if err := r.build(ctx, "cmd/longshorectl", p, path); err != nil {
			return err
		}
		bill, err := r.bill(path)
		if err != nil {
			return err
		}
		files = append(files, path, bill)
	}
	for _, p := range r.platforms {
		path := filepath.Join(r.out, r.server(p)) // built for the image
		bill, err := r.bill(path)
		if err != nil {
			return err
		}
		files = append(files, path, bill)
	}
	return writeChecksums(filepath.Join(r.out, "SHA256SUMS"), files)
}

// writeChecksums writes the digests of files as sha256sum reads them.
func writeChecksums(to string, files []string) error {
	lines := make([]string, 0, len(files))
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("computing checksums: %w", err)
		}
		sum := sha256.Sum256(data)
		lines = append(lines, hex.EncodeToString(sum[:])+"  "+filepath.Base(path)+"\n")
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[2*sha256.Size:], b[2*sha256.Size:]) })
	if err := os.WriteFile(to, []byte(strings.Join(lines, "")), 0o644); err != nil {
		return fmt.Errorf("writing the checksums: %w", err)
	}
	return nil
}
