package apitime

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestBound(t *testing.T) {
	var decoded metav1.Time
	require.NoError(t, json.Unmarshal([]byte(`"9999-12-31T23:59:59-23:59"`), &decoded))
	require.Equal(t, 10000, decoded.UTC().Year(), "how such a time arrives in JSON")
	for name, tc := range map[string]struct {
		at   time.Time
		kept bool
	}{
		"none":                        {time.Time{}, false},
		"before 1970":                 {time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC), false},
		"today":                       {time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC), true},
		"the last one":                {time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), true},
		"with an offset":              {decoded.Time, false},
		"in a local time before that": {decoded.In(time.FixedZone("", -86340)), false},
		"as far as possible":          {time.Unix(1<<62, 0), false},
	} {
		t.Run(name, func(t *testing.T) {
			bounded, micro := Bound(metav1.NewTime(tc.at)), BoundMicro(metav1.NewMicroTime(tc.at))
			assert.Equal(t, tc.kept, !bounded.IsZero())
			assert.Equal(t, tc.kept, !micro.IsZero())
			for _, at := range []any{bounded, micro} {
				text, err := json.Marshal(at)
				require.NoError(t, err)
				var again metav1.MicroTime
				if _, isTime := at.(metav1.Time); isTime {
					require.NoError(t, json.Unmarshal(text, &metav1.Time{}), "%s", text)
				} else {
					require.NoError(t, json.Unmarshal(text, &again), "%s", text)
				}
			}
		})
	}
}
