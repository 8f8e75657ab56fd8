package session

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestParseStat(t *testing.T) {
	cases := map[string]struct {
		stat    string
		session int
		ended   bool
	}{
		"a running process":           {stat: "71 (demo) S 1 71 42 0 -1", session: 42},
		"a name with a parenthesis":   {stat: "71 (a) Z 9) S 1 71 42 0 -1", session: 42},
		"a zombie":                    {stat: "71 (demo) Z 1 71 42 0 -1", ended: true},
		"a process that is being cut": {stat: "71 (demo) X 1 71 42 0 -1", ended: true},
		"half a line":                 {stat: "71 (demo) S 1", ended: true},
		"nothing":                     {stat: "", ended: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			session, ended := parseStat(tc.stat)
			assert.Equal(t, tc.session, session)
			assert.Equal(t, tc.ended, ended)
		})
	}
}
