package status

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
)

func TestFieldsOfInfo(t *testing.T) {
	for name, tc := range map[string]struct {
		peer, path string
		format     output.Format
		want       string
		wantErr    string
	}{
		"the shortcut of the reference": {path: "clusterid", want: "rome\n"},
		"a path":                        {path: "cluster.clusterID", want: "rome\n"},
		"a path of the reference":       {path: ".Local.clusterid", want: "rome\n"},
		"a peer":                        {path: "peers.milan.authentication", want: "Healthy\n"},
		"of a peer":                     {peer: "milan", path: "authentication", want: "Healthy\n"},
		"the ID of a peer":              {peer: "milan", path: "clusterid", want: "milan\n"},
		"a list":                        {path: "problems", want: "[]\n"},
		"an object":                     {peer: "milan", path: "slices.milan.granted", want: "cpu: \"8\"\nmemory: 16Gi\npods: \"110\"\n"},
		"as JSON":                       {path: "clusterid", format: output.JSON, want: "\"rome\"\n"},
		"a field that does not exist":   {path: "cluster.name", wantErr: `invalid --get "cluster.name": "cluster.name" does not exist; there are apiServer, clusterID, namespace`},
		"a peer that does not exist":    {path: "peers.paris", wantErr: `"peers.paris" does not exist; there are milan, oslo`},
		"below a word":                  {path: "clusterid.x", wantErr: `"cluster.clusterID.x" does not exist`},
	} {
		t.Run(name, func(t *testing.T) {
			report := build(healthyCluster())
			var value any = report
			if tc.peer != "" {
				peer, err := report.of(tc.peer)
				require.NoError(t, err)
				value = peer
			}
			var out bytes.Buffer
			err := printInfo(&out, tc.format, tc.path, value, nil)
			if tc.wantErr != "" {
				code, message := output.ExitCode(err)
				assert.Equal(t, output.CodeUsage, code)
				assert.Contains(t, message, tc.wantErr)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.want, out.String())
		})
	}
}
