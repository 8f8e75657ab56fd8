package rig

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"

	"github.com/longshore-dev/longshore/conformance/testplane"
)

// Watch returns nil when the context ends, and an error when a control plane or a process
// node ends before: their state is lost. Kwok has no state and is started again.
func (w *Clusters) Watch(ctx context.Context) error {
	log := logr.FromContextOrDiscard(ctx)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.Rome.Plane.Done():
			return w.Rome.planeEnded()
		case <-w.Milan.Plane.Done():
			return w.Milan.planeEnded()
		case <-w.Rome.workers.done:
			return w.Rome.workersEnded()
		case <-w.Milan.workers.done:
			return w.Milan.workersEnded()
		case <-w.Milan.Plane.KwokDone():
		}
		log.Info("Starting kwok again, it ended by itself", "cluster", w.Milan.Name, "log", w.Milan.Plane.KwokLogFile())
		err := w.Milan.Plane.StartKwok(ctx, testplane.KwokOptions{})
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil
		default:
			return fmt.Errorf("looking after the nodes of %q: %w", w.Milan.Name, err)
		}
	}
}

func (s *Side) planeEnded() error {
	return fmt.Errorf("the control plane of %q ended: see %s", s.Name, s.Plane.LogFile())
}

// workersEnded leaves the reason to Stop, which returns it.
func (s *Side) workersEnded() error {
	return fmt.Errorf("the process node of %q ended by itself", s.Name)
}
