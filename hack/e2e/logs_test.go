package e2e_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// saveLogs keeps the logs of Longshore's containers in the folder of the run: the kubelet
// deletes them with the pods.
func (w *world) saveLogs(t *testing.T) {
	for _, c := range []*cluster{w.rome, w.milan} {
		dir := filepath.Join(c.node.Config.Dir, "longshore")
		require.NoError(t, os.MkdirAll(dir, 0o700))
		files, err := filepath.Glob(c.node.Config.Dir + "/pods/l*/*/*.log")
		require.NoError(t, err)
		for _, file := range files {
			content, err := os.ReadFile(file)
			require.NoError(t, err)
			pod, container := filepath.Base(filepath.Dir(filepath.Dir(file))), filepath.Base(filepath.Dir(file))
			name := pod + "_" + container + "_" + filepath.Base(file)
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
		}
	}
}
