package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const cgroupMount = "/sys/fs/cgroup"

// UsesCgroup1 reports whether the machine's controllers are those of cgroup v1, as the kubelet
// finds out.
func UsesCgroup1() (bool, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(cgroupMount, &stat); err != nil {
		return false, fmt.Errorf("reading the file system of %s: %w", cgroupMount, err)
	}
	return stat.Type != unix.CGROUP2_SUPER_MAGIC, nil
}

// cgroupTrees returns the folders that have a cgroup of the given name, or are to have one.
func cgroupTrees(cgroup1 bool) ([]string, error) {
	if !cgroup1 {
		return []string{cgroupMount}, nil
	}
	entries, err := os.ReadDir(cgroupMount)
	if err != nil {
		return nil, fmt.Errorf("listing the cgroup controllers: %w", err)
	}
	var trees []string
	for _, entry := range entries {
		if entry.IsDir() {
			trees = append(trees, filepath.Join(cgroupMount, entry.Name()))
		}
	}
	return trees, nil
}

// createCgroup makes the cgroup of a node in every controller.
func createCgroup(root string, cgroup1 bool) error {
	trees, err := cgroupTrees(cgroup1)
	if err != nil {
		return err
	}
	for _, tree := range trees {
		if !cgroup1 {
			if err := delegateControllers(tree); err != nil {
				return err
			}
		}
		if filepath.Base(tree) == "unified" {
			continue
		}
		if err := os.MkdirAll(filepath.Join(tree, root), 0o755); err != nil {
			return fmt.Errorf("creating the cgroup of the node: %w", err)
		}
	}
	return nil
}

// delegateControllers gives the children of a cgroup v2 all controllers that it has.
func delegateControllers(tree string) error {
	controllers, err := os.ReadFile(filepath.Join(tree, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("reading the cgroup controllers: %w", err)
	}
	for controller := range strings.FieldsSeq(string(controllers)) {
		if err := os.WriteFile(filepath.Join(tree, "cgroup.subtree_control"), []byte("+"+controller), 0o600); err != nil {
			return fmt.Errorf("delegating the cgroup controller %s: %w", controller, err)
		}
	}
	return nil
}

// RemoveCgroup removes the cgroup of a node that has ended, and all below it.
func RemoveCgroup(root string) error {
	cgroup1, err := UsesCgroup1()
	if err != nil {
		return err
	}
	trees, err := cgroupTrees(cgroup1)
	if err != nil {
		return err
	}
	var errs []error
	for _, tree := range trees {
		var dirs []string
		err := filepath.WalkDir(filepath.Join(tree, root), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				dirs = append(dirs, path)
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		for _, dir := range slices.Backward(dirs) {
			errs = append(errs, os.Remove(dir))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("removing the cgroup %s: %w", root, err)
	}
	return nil
}
