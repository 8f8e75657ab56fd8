package feed

import (
	"bufio"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
)

func TestEvents(t *testing.T) {
	long := strings.Repeat("x", 2*firstBuffer)
	for name, test := range map[string]struct {
		body string
		want []string
		err  error
	}{
		"no event":                        {"", nil, nil},
		"two events":                      {"{}\n[]\n", []string{"{}", "[]"}, nil},
		"an event longer than the buffer": {long + "\n{}\n", []string{long, "{}"}, nil},
		"an event without an end":         {"{}\n{\"ty", []string{"{}"}, io.ErrUnexpectedEOF},
		"an event of more than 16 MiB":    {"{}\n" + strings.Repeat("x", maxEvent) + "\n", []string{"{}"}, bufio.ErrTooLong},
	} {
		t.Run(name, func(t *testing.T) {
			for how, body := range map[string]io.Reader{"at once": strings.NewReader(test.body), "in parts": iotest.HalfReader(strings.NewReader(test.body))} {
				var got []string
				events := Events(body)
				for events.Scan() {
					got = append(got, events.Text())
				}
				assert.Equal(t, test.want, got, how)
				assert.ErrorIs(t, events.Err(), test.err, how)
			}
		})
	}
}
