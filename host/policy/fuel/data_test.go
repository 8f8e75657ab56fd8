package fuel_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"

	"github.com/longshore-dev/longshore/host/policy/encode"
)

// dataSection returns a module's data section, empty when there is none.
func dataSection(t *testing.T, wasm []byte) []byte {
	t.Helper()
	for rest := wasm[8:]; len(rest) > 0; {
		size, n := binary.Uvarint(rest[1:])
		require.Positive(t, n)
		content := rest[1+n : 1+n+int(size)]
		if rest[0] == 11 {
			return content
		}
		rest = rest[1+n+int(size):]
	}
	return nil
}

type datum struct {
	offset int64
	data   string
}

func active(data ...datum) []byte {
	var items [][]byte
	for _, d := range data {
		items = append(items, encode.Code(0, encode.Const32(d.offset), 0x0b, encode.Sized([]byte(d.data))))
	}
	return encode.List(items)
}

func TestSegmentsAreJoinedWhereItHasNoEffect(t *testing.T) {
	far := strings.Repeat("\x00", 24)
	own := func(m *encode.Module) { m.Memory(1, 1) }
	cases := map[string]struct {
		shape func(m *encode.Module)
		data  []datum
		want  []byte
	}{
		"neighbors":                    {own, []datum{{8, "a"}, {9, "b"}}, active(datum{8, "ab"})},
		"with zeros between them":      {own, []datum{{0, "a"}, {3, "b"}, {5, "c"}}, active(datum{0, "a\x00\x00b\x00c"})},
		"as far apart as may be":       {own, []datum{{0, "a"}, {25, "b"}}, active(datum{0, "a" + far + "b"})},
		"too far apart":                {own, []datum{{0, "a"}, {26, "b"}, {27, "c"}}, active(datum{0, "a"}, datum{26, "bc"})},
		"nothing to join":              {own, []datum{{0, "a"}, {26, "b"}}, active(datum{0, "a"}, datum{26, "b"})},
		"in any order":                 {own, []datum{{9, "b"}, {90, "c"}, {8, "a"}}, active(datum{8, "ab"}, datum{90, "c"})},
		"one that writes over another": {own, []datum{{8, "ab"}, {9, "c"}}, active(datum{8, "ab"}, datum{9, "c"})},
		"one that code may name": {func(m *encode.Module) {
			m.Memory(1, 1)
			m.PassiveData("p")
		}, []datum{{8, "a"}, {9, "b"}}, encode.Code(
			3, 1, encode.Sized([]byte("p")), active(datum{8, "a"}, datum{9, "b"})[1:])},
		"an imported memory, to which another module may have written": {func(m *encode.Module) {
			m.ImportRaw("host", "memory", 2, []byte{0, 1})
		}, []datum{{8, "a"}, {9, "b"}}, active(datum{8, "a"}, datum{9, "b"})},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := &encode.Module{}
			tc.shape(m)
			for _, d := range tc.data {
				m.Data(d.offset, d.data)
			}
			original := m.Bytes()
			kept := bytes.Clone(original)
			assert.Equal(t, tc.want, dataSection(t, meter(t, original).Wasm))
			assert.Equal(t, kept, original, "the original is not written to")
		})
	}
}

// Whatever the segments, memory begins with the same bytes, or not at all.
func TestJoinedSegmentsFillTheSameMemory(t *testing.T) {
	runtime := wazero.NewRuntime(t.Context())
	t.Cleanup(func() { assert.NoError(t, runtime.Close(t.Context())) })
	look(t, runtime)
	memory := func(wasm []byte) ([]byte, error) {
		instance, err := runtime.InstantiateWithConfig(t.Context(), wasm, wazero.NewModuleConfig().WithName(""))
		if err != nil {
			return nil, err
		}
		content, ok := instance.Memory().Read(0, instance.Memory().Size())
		require.True(t, ok)
		content = bytes.Clone(content)
		return content, instance.Close(t.Context())
	}
	random := rand.New(rand.NewPCG(1, 2))
	var fewer, failed int
	for range 300 {
		m := &encode.Module{}
		m.Memory(1, 1)
		offset := random.Int64N(100)
		if random.IntN(10) == 0 {
			offset += 65_000
		}
		for range random.IntN(12) {
			data := make([]byte, random.IntN(40))
			for i := range data {
				data[i] = byte(random.IntN(256))
			}
			m.Data(offset, string(data))
			offset += int64(len(data)) + random.Int64N(50)
			if random.IntN(20) == 0 {
				offset = max(0, offset-150)
			}
		}
		original := m.Bytes()
		result := meter(t, original).Wasm
		if len(dataSection(t, result)) != len(dataSection(t, original)) {
			fewer++
		}
		want, wantErr := memory(original)
		got, err := memory(result)
		if wantErr != nil {
			failed++
			require.Error(t, err)
			continue
		}
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got))
	}
	assert.Positive(t, fewer, "no segments were joined")
	assert.Positive(t, failed, "no memory was too small")
}
