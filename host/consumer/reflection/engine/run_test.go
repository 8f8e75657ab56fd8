package engine

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// startWith is start with other options.
func startWith(t *testing.T, local, remote *cluster, alter func(*Options), definitions ...Definition) *env {
	t.Helper()
	w := prepare(t, local, remote, alter, definitions...)
	w.run(t)
	return w
}

// prepare returns an engine that does not run yet.
func prepare(t *testing.T, local, remote *cluster, alter func(*Options), definitions ...Definition) *env {
	t.Helper()
	w := &env{local: local, remote: remote, journal: &journal{}, done: make(chan error, 1)}
	options := Options{
		Local: local, Remote: remote, Definitions: definitions,
		HomeClusterID: home, ProviderClusterID: provider, NodeName: nodeName, TenantNamespace: tenant,
		Recorder: func(string) Recorder { return w.journal },
		Now:      time.Now,
	}
	alter(&options)
	engine, err := New(options)
	require.NoError(t, err)
	engine.revertBase = tick
	w.engine = engine
	return w
}

func (w *env) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w.stop = cancel
	go func() { w.done <- w.engine.Run(ctx) }()
	t.Cleanup(w.end)
}

func (w *env) end() {
	w.stop()
	if w.done != nil {
		<-w.done
		w.done = nil
	}
}
