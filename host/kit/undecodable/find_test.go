package undecodable_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/longshore-dev/longshore/host/kit/undecodable"
)

// Amounts are found where decoding would parse them, before it does.
func TestCheckAmounts(t *testing.T) {
	for document, want := range map[string]string{
		`{"spec":{"containers":[{"resources":{"requests":{"cpu":"1e3","memory":"1Ei"}}}]}}`:           "",
		`{"spec":{"containers":[{"env":[{"name":"N","value":"1e-2000000000"}]}]}}`:                    "",
		`{"metadata":{"annotations":{"requests":"1e-2000000000"}},"unknown":{"cpu":"1e-2000000000"}}`: "",
		`{"spec":"1e-2000000000"}`: "",
		`{"spec":{"containers":[{},{"resources":{"requests":{"cpu":"1e-2000000000"}}}]}}`:    "spec.containers[1].resources.requests.cpu: ",
		`{"SPEC":{"Containers":[{"resources":{"Limits":{"cpu":"1e0002000000000"}}}]}}`:       "SPEC.Containers[0].resources.Limits.cpu: ",
		`{"spec":{"overhead":{"cpu":1e-2000000000}}}`:                                        "spec.overhead.cpu: ",
		`{"spec":{"volumes":[{"emptyDir":{"sizeLimit":"12345678901234567890E+30000000"}}]}}`: "spec.volumes[0].emptyDir.sizeLimit: ",
		`{"spec":{"ephemeralContainers":[{"resources":{"limits":{"cpu":"1e-200"}}}]}}`:       "spec.ephemeralContainers[0].resources.limits.cpu: ",
		`{"status":{"allocatedResources":{"cpu":"` + strings.Repeat("9", 1<<20) + `"}}}`:     "status.allocatedResources.cpu: ",
		`{"spec":`: "decoding JSON: ",
	} {
		err := undecodable.CheckAmounts[corev1.Pod]([]byte(document))
		if want == "" {
			require.NoError(t, err, "%.100s", document)
			continue
		}
		require.ErrorContains(t, err, want, "%.100s", document)
	}
}
