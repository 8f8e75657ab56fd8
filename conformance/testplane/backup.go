package testplane

import (
	"context"
	"fmt"
	"os"
)

// BackUp copies the data of etcd to a new directory. The control plane is down meanwhile, as
// after Crash and Restart.
func (c *Cluster) BackUp(ctx context.Context, dir string) error {
	return c.whileDown(ctx, "backing up", func() error { return os.CopyFS(dir, os.DirFS(c.path(etcdDir))) })
}

// Restore replaces the data of etcd by a backup. The control plane is down meanwhile, and goes
// back in time: to the objects and to the resource version of the backup.
func (c *Cluster) Restore(ctx context.Context, dir string) error {
	return c.whileDown(ctx, "restoring", func() error {
		if err := os.RemoveAll(c.path(etcdDir)); err != nil {
			return err //nolint:wrapcheck // whileDown wraps it.
		}
		return os.CopyFS(c.path(etcdDir), os.DirFS(dir))
	})
}

// etcdDir is where the control plane keeps the data of etcd, in the cluster's directory, and etcdSocket where
// etcd listens.
const (
	etcdDir    = "etcd"
	etcdSocket = "etcd-client.sock"
)

func (c *Cluster) whileDown(ctx context.Context, what string, do func() error) error {
	if err := c.Crash(); err != nil {
		return fmt.Errorf("%s cluster %q: %w", what, c.Name, err)
	}
	if err := do(); err != nil {
		return fmt.Errorf("%s cluster %q: %w", what, c.Name, err)
	}
	return c.Restart(ctx)
}
