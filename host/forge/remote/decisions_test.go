package remote_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/longshore-dev/longshore/host/forge/remote"
)

// What the host drops itself is not listed on each object, so a document must.
func TestTheDocumentNamesWhatTheHostDrops(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "reference", "decisions.md"))
	require.NoError(t, err)
	_, text, found := strings.Cut(string(raw), "## What it does not record")
	require.True(t, found)
	for spec, dropped := range map[reflect.Type]map[string]string{
		reflect.TypeFor[corev1.PodSpec](): remote.DroppedPodFields(), reflect.TypeFor[corev1.ServiceSpec](): remote.DroppedServiceFields(),
	} {
		for field := range dropped {
			member, ok := spec.FieldByName(field)
			require.True(t, ok, field)
			name, _, _ := strings.Cut(member.Tag.Get("json"), ",")
			assert.Contains(t, text, "`"+name+"`")
		}
	}
	for _, key := range strings.Fields(strings.NewReplacer("`", " ", ",", " ", "(", " ", ")", " ", ";", " ").Replace(text)) {
		if strings.Contains(key, "/") && strings.Contains(key, ".dev/") || strings.Contains(key, "liqo.io/") {
			assert.True(t, remote.ReservedKey(strings.TrimSuffix(key, "…")+strings.Repeat("x", strings.Count(key, "…"))), key)
		}
	}
}
