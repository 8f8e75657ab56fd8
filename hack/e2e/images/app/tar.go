package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// runTar is as much of tar as `kubectl cp` uses: cf - PATH, and xmf - -C DIR.
func runTar(args []string, in io.Reader, out io.Writer) error {
	if len(args) < 2 || args[1] != "-" {
		return fmt.Errorf("tar: unsupported arguments %q", args)
	}
	switch flags := strings.TrimPrefix(args[0], "-"); {
	case strings.HasPrefix(flags, "c") && len(args) == 3:
		return pack(args[2], out)
	case strings.HasPrefix(flags, "x"):
		dir := "."
		if len(args) == 4 && args[2] == "-C" {
			dir = args[3]
		}
		return unpack(in, dir)
	default:
		return fmt.Errorf("tar: unsupported arguments %q", args)
	}
}

func pack(root string, out io.Writer) error {
	w := tar.NewWriter(out)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() && !info.IsDir() {
			return nil
		}
		header, err := tar.FileInfoHeader(info, "")
		if err != nil {
			return err
		}
		header.Name = strings.TrimPrefix(path, "/")
		if err := w.WriteHeader(header); err != nil || info.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	return errors.Join(err, w.Close())
}

func unpack(in io.Reader, dir string) error {
	r := tar.NewReader(in)
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		path := filepath.Join(dir, filepath.Clean("/"+header.Name))
		if header.FileInfo().IsDir() {
			err = os.MkdirAll(path, 0o755)
		} else {
			err = write(path, r)
		}
		if err != nil {
			return err
		}
	}
}

func write(path string, in io.Reader) error {
	content, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}
