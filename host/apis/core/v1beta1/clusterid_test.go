package v1beta1

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestANewClusterIDHasRoomInTheNameOfANamespace(t *testing.T) {
	require.NoError(t, ClusterID(strings.Repeat("x", 51)).ValidateNew())
	assert.ErrorContains(t, ClusterID(strings.Repeat("x", 52)).ValidateNew(), "more than 51")
	assert.Error(t, ClusterID("").ValidateNew())
}

func TestClusterIDValidate(t *testing.T) {
	cases := map[string]struct {
		id   ClusterID
		want string
	}{
		"a word":                      {id: "rome"},
		"digits and dashes":           {id: "0-rome-1"},
		"as long as a label may be":   {id: ClusterID(strings.Repeat("x", 63))},
		"none":                        {want: "is required"},
		"capitals":                    {id: "Rome", want: `invalid cluster ID "Rome"`},
		"a dash at the end":           {id: "rome-", want: "invalid cluster ID"},
		"a dot":                       {id: "rome.it", want: "invalid cluster ID"},
		"longer than a label's value": {id: ClusterID(strings.Repeat("x", 64)), want: "more than 63"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := tc.id.Validate()
			if tc.want == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, tc.want)
		})
	}
}

// All components agree on what a tenant namespace is.
func TestIsTenantNamespace(t *testing.T) {
	for name, tc := range map[string]struct {
		labels map[string]string
		want   bool
	}{
		"a tenant namespace":            {map[string]string{"liqo.io/tenant-namespace": "true", "liqo.io/remote-cluster-id": "milan"}, true},
		"without a value":               {map[string]string{"liqo.io/tenant-namespace": "", "liqo.io/remote-cluster-id": "milan"}, true},
		"labeled as not one":            {map[string]string{"liqo.io/tenant-namespace": "false", "liqo.io/remote-cluster-id": "milan"}, false},
		"without the label":             {map[string]string{"liqo.io/remote-cluster-id": "milan"}, false},
		"that of another cluster":       {map[string]string{"liqo.io/tenant-namespace": "true", "liqo.io/remote-cluster-id": "rome"}, false},
		"without the ID of the cluster": {map[string]string{"liqo.io/tenant-namespace": "true"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, IsTenantNamespace(&metav1.ObjectMeta{Labels: tc.labels}, "milan"))
		})
	}
}
