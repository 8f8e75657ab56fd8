package v1beta1

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

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
