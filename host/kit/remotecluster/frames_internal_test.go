package remotecluster

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type sent struct {
	net.Conn

	content io.Reader
}

func (s sent) Read(p []byte) (int, error) { return s.content.Read(p) }

func frame(header string, length int, content string) string {
	return header + string([]byte{byte(length >> 16), byte(length >> 8), byte(length)}) + content
}

// Another cluster sends frames of 16 MiB, each of which the library would read whole.
func TestFramesAreSmall(t *testing.T) {
	data, final := "\x00\x00\x00\x05\x00", "\x00\x00\x00\x05\x01"
	long := strings.Repeat("a", maxData) + strings.Repeat("b", maxData) + "c"
	reply := frame("\x80\x03\x00\x02\x00", 4, "\x00\x00\x00\x05")
	tests := map[string]struct{ sent, read, err string }{
		"nothing":                   {"", "", ""},
		"a reply and data":          {reply + frame(data, 2, "ok") + reply, reply + frame(data, 2, "ok") + reply, ""},
		"the end of a stream":       {frame(final, 0, ""), frame(final, 0, ""), ""},
		"long data is many frames":  {frame(data, len(long), long) + reply, frame(data, maxData, long[:maxData]) + frame(data, maxData, long[maxData:2*maxData]) + frame(data, 1, "c") + reply, ""},
		"the last of them is final": {frame(final, maxData+1, long[:maxData+1]), frame(data, maxData, long[:maxData]) + frame(final, 1, "b"), ""},
		"data that ends early":      {frame(data, 1<<24-1, "ok"), frame(data, maxData, "ok"), ""},
		"a header that ends early":  {reply + "\x80\x03", reply, "unexpected EOF"},
		"a long reply":              {frame("\x80\x03\x00\x02\x00", maxControl+1, long), "", "type 2 with 513 bytes"},
		"a stream of the server":    {frame("\x80\x03\x00\x01\x00", 10, "0123456789"), "", "type 1 with 10 bytes"},
		"headers":                   {reply + frame("\x80\x03\x00\x08\x00", 4, "\x00\x00\x00\x05"), reply, "type 8 with 4 bytes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var read bytes.Buffer
			_, err := io.CopyBuffer(struct{ io.Writer }{&read}, &frames{Conn: sent{content: strings.NewReader(test.sent)}}, make([]byte, 1000))
			if test.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.err)
			}
			assert.Equal(t, test.read, read.String())
		})
	}
}
