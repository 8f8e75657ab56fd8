package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/longshore-dev/longshore/conformance/testplane"
	"github.com/longshore-dev/longshore/conformance/testplane/processnode"
)

// workers is the process node of one cluster, running.
type workers struct {
	// policies is the folder with the compiled built-in policies.
	policies string
	cancel   context.CancelFunc
	// done is closed when the node has ended; err is its error.
	done chan struct{}
	err  error
}

// startWorkers starts the node on which the cluster's own Deployments run as processes.
func startWorkers(ctx context.Context, side *Side, options StartOptions) (*workers, error) {
	longshore, err := filepath.Abs(options.Longshore)
	if err != nil {
		return nil, fmt.Errorf("finding the server binary: %w", err)
	}
	policies, err := precompile(ctx, longshore, filepath.Join(options.Dir, "policies"))
	if err != nil {
		return nil, err
	}
	server := processnode.Program{Path: longshore}
	kubelet := processnode.Program{Path: longshore, Args: []string{"kubelet", "--precompiled-policy-dir=" + policies}}
	node, err := processnode.New(processnode.Options{
		Name:   side.Name + "-processes",
		Config: side.Plane.RESTConfig(),
		Images: map[string]processnode.Program{"longshore/longshore": server},
		Commands: map[string]processnode.Program{
			"/usr/bin/longshore": server, "/usr/bin/virtual-kubelet": kubelet,
			// It is built beside the server.
			PodLister: {Path: filepath.Join(filepath.Dir(longshore), PodLister)},
		},
		Dir:    filepath.Join(options.Dir, side.Name, "pods"),
		LogDir: filepath.Join(options.LogDir, side.Name),
		Address: func() (string, func(), error) {
			address, err := testplane.ReserveAddress()
			if err != nil {
				return "", nil, err
			}
			return address.IP, address.Release, nil
		},
		Labels:   map[string]string{ProcessNodeLabel: "true"},
		Taints:   []corev1.Taint{{Key: ProcessNodeLabel, Value: "true", Effect: corev1.TaintEffectNoSchedule}},
		Capacity: Capacity("8", "16Gi", "50"),
	})
	if err != nil {
		return nil, err
	}
	// The node outlives StartClusters; its own stop ends it.
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w := &workers{policies: policies, cancel: cancel, done: make(chan struct{})}
	go func() {
		w.err = node.Run(life)
		close(w.done)
	}()
	select {
	case <-node.Ready():
		return w, nil
	case <-w.done:
		return nil, errors.Join(fmt.Errorf("process node of %q ended before it was ready", side.Name), w.stop())
	case <-ctx.Done():
		return nil, errors.Join(context.Cause(ctx), w.stop())
	}
}

// precompiling is held while a process compiles policies, which the clusters of a process share.
var precompiling sync.Mutex

// precompile compiles the built-in policies into a folder unless it exists, and returns its absolute
// path. The image has such a folder: without it, each process of Longshore would compile them.
func precompile(ctx context.Context, longshore, dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("finding the folder of the compiled policies: %w", err)
	}
	precompiling.Lock()
	defer precompiling.Unlock()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}

	if out, err := exec.CommandContext(ctx, longshore, "precompile-policies", dir).CombinedOutput(); err != nil {
		return "", errors.Join(fmt.Errorf("compiling the built-in policies: %w: %s", err, out), os.RemoveAll(dir))
	}
	return dir, nil
}

func (w *workers) stop() error {
	w.cancel()
	<-w.done
	return w.err
}
