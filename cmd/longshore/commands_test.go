package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheErrorOfAMissingClusterNamesWhatToSet(t *testing.T) {
	for name, tc := range map[string]struct {
		kubeconfig, want string
	}{
		"nothing is set":           {"", "not a pod with a service account, and no kubeconfig names a cluster: set KUBECONFIG to a file"},
		"the file is no YAML":      {"{", "finding the own cluster (KUBECONFIG, or a service account): "},
		"it names no cluster":      {"apiVersion: v1\nkind: Config\n", "no kubeconfig names a cluster"},
		"its context is not in it": {"apiVersion: v1\nkind: Config\ncurrent-context: rome\n", "rome"},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			t.Setenv("HOME", home)
			t.Setenv("KUBERNETES_SERVICE_HOST", "")
			t.Setenv("KUBECONFIG", "")
			if tc.kubeconfig != "" {
				file := filepath.Join(home, "kubeconfig")
				require.NoError(t, os.WriteFile(file, []byte(tc.kubeconfig), 0o600))
				t.Setenv("KUBECONFIG", file)
			}
			_, err := ownCluster()
			assert.ErrorContains(t, err, tc.want)
		})
	}
}
