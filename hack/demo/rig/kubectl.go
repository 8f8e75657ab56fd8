package rig

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/longshore-dev/longshore/conformance/testplane/binary"
)

// LinkKubectl puts a kubectl of the clusters' own version into the folder and returns its
// path: the test plane is one, when it is called by that name.
func LinkKubectl(ctx context.Context, dir string) (string, error) {
	plane, err := binary.Locate(ctx)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("making a folder for kubectl: %w", err)
	}
	link := filepath.Join(dir, "kubectl")
	if err := os.Remove(link); err != nil && !os.IsNotExist(err) {
		return "", fmt.Errorf("replacing kubectl: %w", err)
	}
	if err := os.Symlink(plane, link); err != nil {
		return "", fmt.Errorf("linking kubectl: %w", err)
	}
	return link, nil
}
