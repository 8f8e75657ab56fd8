package rig

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWorldStarts(t *testing.T) {
	dir := t.TempDir()
	w, err := StartWorld(t.Context(), WorldOptions{
		Dir: dir, LogDir: filepath.Join(dir, "logs"), Longshore: os.Getenv("LONGSHORE"), SimulatedNodes: 2, PodsPerNode: "100",
		Step: func(s string) { t.Log(s) },
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Stop(context.Background())) })
	conn, err := w.Connection()
	require.NoError(t, err)
	r, err := Open(conn)
	require.NoError(t, err)
	start := time.Now()
	require.NoError(t, r.Install(t.Context(), nil))
	t.Log("installed", time.Since(start))
	require.NoError(t, r.Peer(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err = r.Rome.WaitForDeployments(ctx, Namespace, func(s string) {})
	t.Log(err)
	if os.Getenv("HOLD") != "" {
		time.Sleep(5 * time.Minute)
	}
}
