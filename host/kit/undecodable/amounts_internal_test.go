package undecodable

import (
	"encoding/binary"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// amount is what Kubernetes takes for an amount, after it has removed spaces.
var amount = regexp.MustCompile(`^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+|[a-zA-Z]{0,2})$`)

// The quick look at the bytes finds each amount that is refused, wherever it is.
func FuzzSlowAmountsAreSeen(f *testing.F) {
	for _, seed := range []string{"1", "1e3", "1e-2000000000", "1E+0000300", "0.5", "-1e-999", "12Ki", strings.Repeat("1", 65), " 1e300", "1e300\u00a0", ".1e-300", "7.e300"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		quoted, err := json.Marshal(text)
		if err != nil || strings.Contains(string(quoted), `\`) || len(text) > 8192 || !amount.MatchString(strings.TrimSpace(text)) {
			return // Kubernetes does not remove escapes.
		}
		document := `{"kind":"Pod","status":{"allocatedResources":{"cpu":` + string(quoted) + `}}}`
		if isSlow(text) {
			require.True(t, mayHaveSlowAmount([]byte(document), isValueOfJSON), document)
			before := append([]byte("3e"), binary.AppendUvarint([]byte{0x0A}, uint64(len(text)))...)
			require.True(t, mayHaveSlowAmount(append(append(before, text...), "3e-9"...), isTextOfProtobuf), text)
		}
	})
}

func BenchmarkMayHaveSlowAmount(b *testing.B) {
	document := []byte(strings.Repeat(`{"metadata":{"name":"web-5d8c","uid":"12345678-3e12-4567-89ab-0123456789ab"},"spec":{"cpu":"1500m"}},`, 10_000))
	b.SetBytes(int64(len(document)))
	for b.Loop() {
		require.False(b, mayHaveSlowAmount(document, isValueOfJSON))
	}
}
