package testplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// The components that have processes of their own with Options.SeparateProcesses.
const (
	managerName   = "kube-controller-manager"
	schedulerName = "kube-scheduler"
)

// RestartControllers restarts the controller manager and the scheduler of a cluster with
// Options.SeparateProcesses. The arguments replace Options.ManagerArgs and Options.SchedulerArgs. It does
// not wait until they have read their objects.
func (c *Cluster) RestartControllers(ctx context.Context, managerArgs, schedulerArgs []string) error {
	if !c.options.SeparateProcesses {
		return fmt.Errorf("restarting the controllers of cluster %q: they run in the process of the API server: set Options.SeparateProcesses", c.Name)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.options.ManagerArgs, c.options.SchedulerArgs = managerArgs, schedulerArgs
	var errs []error
	for _, p := range c.controllers {
		errs = append(errs, p.stop(ctx, stopGrace))
	}
	err := errors.Join(errs...)
	if err == nil {
		c.controllers = nil
		err = c.startControllersLocked()
	}
	if err != nil {
		return fmt.Errorf("restarting the controllers of cluster %q: %w", c.Name, err)
	}
	return nil
}

// startControllers starts what has processes of its own. Those of an API server that ended by itself may still
// run.
func (c *Cluster) startControllers() error {
	if !c.options.SeparateProcesses {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.killControllersLocked(); err != nil {
		return err
	}
	return c.startControllersLocked()
}

// startControllersLocked starts the controller manager and the scheduler. Those that started before an error
// are kept, so that Stop ends them.
func (c *Cluster) startControllersLocked() error {
	for _, args := range [][]string{
		slices.Concat([]string{managerName}, c.managerArgs(), c.options.ManagerArgs),
		slices.Concat([]string{schedulerName}, c.schedulerArgs(), c.options.SchedulerArgs),
	} {
		name := args[0]
		p, err := start(spawn{
			name: name + " " + c.Name, binary: c.options.Binary, args: args, log: c.logFile(name), detach: c.options.Detach,
		})
		if err != nil {
			return err
		}
		c.controllers = append(c.controllers, p)
		if err := c.remember(p); err != nil {
			return err
		}
	}
	return nil
}

// running returns the processes of the control plane.
func (c *Cluster) running() []*process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*process{c.control}, c.controllers...)
}

// killControllers ends the controller manager and the scheduler, if they have processes of their own.
func (c *Cluster) killControllers() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.killControllersLocked()
}

func (c *Cluster) killControllersLocked() error {
	var errs []error
	for _, p := range c.controllers {
		errs = append(errs, p.kill())
	}
	c.controllers = nil
	return errors.Join(errs...)
}
