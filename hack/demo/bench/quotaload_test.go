package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAdmissionsOfShadowPodsAreCounted(t *testing.T) {
	for sentence, tc := range map[string]struct {
		metrics string
		want    admissions
		wantErr string
	}{
		"the bucket of 10 ms is found although its bound is not exact": {
			metrics: `controller_runtime_webhook_latency_seconds_bucket{webhook="/validate/shadowpods",le="0.001"} 1
controller_runtime_webhook_latency_seconds_bucket{webhook="/validate/shadowpods",le="0.009999999999999998"} 7
controller_runtime_webhook_latency_seconds_bucket{webhook="/validate/shadowpods",le="0.09999999999999999"} 8
controller_runtime_webhook_latency_seconds_bucket{webhook="/validate/shadowpods",le="+Inf"} 9
`,
			want: admissions{all: 9, fast: 7},
		},
		"other webhooks and other metrics do not count": {
			metrics: `controller_runtime_webhook_latency_seconds_bucket{webhook="/mutate/shadowpods",le="+Inf"} 9
controller_runtime_webhook_latency_seconds_count{webhook="/validate/shadowpods"} 9
`,
		},
		"a line that is not a sample is an error": {
			metrics: `controller_runtime_webhook_latency_seconds_bucket{webhook="/validate/shadowpods",le="+Inf"} many` + "\n",
			wantErr: "reading the line",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			got, err := parseAdmissions(tc.metrics)
			if tc.wantErr != "" {
				assert.ErrorContains(t, err, tc.wantErr)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.want, got)
		})
	}
}
