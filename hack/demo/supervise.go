package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/longshore-dev/longshore/conformance/testplane"
	"github.com/longshore-dev/longshore/hack/demo/rig"
	"github.com/longshore-dev/longshore/hack/demo/session"
)

const (
	simulatedNodes = 3
	podsPerNode    = "500"
	connectionFile = "connection.json"
	// inheritedLock is the file descriptor behind the three standard ones.
	inheritedLock = 3
)

func connectionPath(s *session.Session) string { return filepath.Join(s.DataDir(), connectionFile) }

// supervise owns both clusters until it is signaled to end. Its standard error is the
// supervisor's log.
func supervise(ctx context.Context, s *session.Session, longshore string) error {
	lock, err := s.InheritSupervisor(os.NewFile(inheritedLock, "supervisor.lock"))
	if err != nil {
		return fmt.Errorf("becoming the supervisor: %w", err)
	}
	err = superviseLocked(ctx, s, longshore)
	if err != nil {
		// `make demo` waits for this state and shows it.
		err = errors.Join(err, s.Write(session.State{PID: os.Getpid(), Error: err.Error()}))
	}
	return errors.Join(err, lock.Release())
}

func superviseLocked(ctx context.Context, s *session.Session, longshore string) error {
	report := func(step string) {
		if err := s.Write(session.State{PID: os.Getpid(), Step: step}); err != nil {
			fmt.Fprintln(os.Stderr, "writing the current step:", err)
		}
	}
	report("cleaning up after an earlier run")
	if err := cleanUp(ctx, s); err != nil {
		return err
	}
	clusters, err := rig.StartClusters(ctx, rig.StartOptions{
		Dir: s.DataDir(), LogDir: s.LogDir(), Longshore: longshore,
		SimulatedNodes: simulatedNodes, PodsPerNode: podsPerNode, Step: report,
	})
	if err != nil {
		return err
	}
	err = announce(s, clusters)
	if err == nil {
		err = clusters.Watch(logr.NewContext(ctx, ctrl.Log))
	}
	return errors.Join(err, clusters.Stop(context.WithoutCancel(ctx)))
}

// cleanUp ends what an earlier supervisor left behind when it was killed, and nothing
// that is not recorded in this demo's folder.
func cleanUp(ctx context.Context, s *session.Session) error {
	for _, name := range []string{rig.Consumer, rig.Provider} {
		if _, err := testplane.StopLeftover(ctx, filepath.Join(s.DataDir(), name)); err != nil {
			return fmt.Errorf("cleaning up after an earlier run: %w", err)
		}
	}
	if err := os.RemoveAll(s.DataDir()); err != nil {
		return fmt.Errorf("cleaning up after an earlier run: %w", err)
	}
	if err := os.MkdirAll(s.DataDir(), 0o700); err != nil {
		return fmt.Errorf("making the clusters' folder: %w", err)
	}
	return nil
}

func announce(s *session.Session, clusters *rig.Clusters) error {
	connection := clusters.Connection()
	if err := connection.Save(connectionPath(s)); err != nil {
		return err
	}
	kubeconfigs, err := connection.WriteKubeconfigs(s.Dir())
	if err != nil {
		return err
	}
	return s.Write(session.State{PID: os.Getpid(), Ready: true, Clusters: kubeconfigs})
}
