package plan_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/cmd/longshorectl/plan"
	"github.com/longshore-dev/longshore/host/planner"
)

// manyPods returns Deployments that differ in name, labels, image, environment and requests.
func manyPods(count int) []byte {
	var all bytes.Buffer
	for i := range count {
		fmt.Fprintf(&all, `---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web-%[1]d, namespace: team-%[2]d, labels: {app: web-%[1]d}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web-%[1]d}}
  template:
    metadata:
      labels: {app: web-%[1]d, tier: front}
      annotations: {example.com/owner: team-%[2]d}
    spec:
      serviceAccountName: web
      containers:
        - name: web
          image: shop/web:%[1]d
          ports: [{containerPort: 8080}]
          env:
            - {name: INSTANCE, value: "%[1]d"}
            - {name: PASSWORD, valueFrom: {secretKeyRef: {name: web, key: password, optional: true}}}
          resources:
            requests: {cpu: 100m, memory: %[3]dMi}
            limits: {memory: 512Mi}
          readinessProbe: {httpGet: {path: /ready, port: 8080}}
          volumeMounts: [{name: scratch, mountPath: /tmp}]
      volumes:
        - {name: scratch, emptyDir: {}}
`, i, i%50, 64+i%100)
	}
	return all.Bytes()
}

// BenchmarkTenThousandPods measures one call from the file to the table, with the start of the
// policies from their cache.
func BenchmarkTenThousandPods(b *testing.B) {
	const count = 10_000
	data := manyPods(count)
	for b.Loop() {
		result, err := plan.Run(b.Context(), plan.Options{
			Files: []string{"-"}, In: bytes.NewReader(data), RuntimeClassName: "liqo", CacheDir: cacheDir,
		})
		require.NoError(b, err)
		require.Len(b, result.Plans, count)
		require.NoError(b, plan.PrintTable(io.Discard, result, output.Colored(false), 80))
		require.Equal(b, planner.Offloadable, result.Plans[count-1].Result)
	}
	b.ReportMetric(float64(count*b.N)/b.Elapsed().Seconds(), "pods/s")
}

func TestManyPodsShowTheirProgress(t *testing.T) {
	var out, progress bytes.Buffer
	command := plan.Command(bytes.NewReader(manyPods(600)), &out, func(string) string { return "" }, nil)
	command.SetErr(&progress)
	command.SetArgs([]string{"-f", "-", "--offline", "--policy-cache-dir", cacheDir})
	require.NoError(t, command.ExecuteContext(t.Context()))
	assert.Contains(t, progress.String(), "Planning 600 pod templates")
	assert.NotContains(t, out.String(), "Planning", "the standard output has the plan only")
	assert.Equal(t, 600, strings.Count(out.String(), "Offloadable"))
}
