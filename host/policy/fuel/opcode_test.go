package fuel_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/policy/encode"
	"github.com/longshore-dev/longshore/host/policy/fuel"
)

// Every instruction that wazero accepts is decoded as wazero does: after unreachable
// the types do not matter, so each opcode is tried with all sorts of immediates, and
// what wazero takes for valid must stay so when it was rewritten.
func TestEveryInstructionOfWazeroIsDecoded(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles thousands of modules")
	}
	var immediates [][]byte
	for n := range 9 {
		immediates = append(immediates, make([]byte, n))
	}
	immediates = append(immediates, make([]byte, 16), []byte{0x40, 0x0b}, []byte{1, 0x7f}, []byte{0x70}, []byte{0x80, 0x01, 0x00},
		[]byte{1}, encode.Code(1, make([]byte, 2)), encode.Code(1, make([]byte, 3)), encode.Code(1, make([]byte, 16)), []byte{2, 0, 0, 0}, []byte{0x40, 0x05, 0x0b})
	var codes [][]byte
	for op := range 256 {
		codes = append(codes, []byte{byte(op)}, encode.Code(0xfe, op))
		for _, prefix := range []int{0xfc, 0xfd} {
			// In its shortest form, in a longer one, and larger than one byte.
			codes = append(codes, encode.Code(prefix, encode.Uleb(uint64(op))), encode.Code(prefix, op|0x80, 0x00), encode.Code(prefix, op|0x80, 0x02))
		}
	}
	runtime := interpreter(t.Context())
	accepted := map[string]bool{}
	for _, code := range codes {
		for _, immediate := range immediates {
			m := &encode.Module{}
			m.Table(2, 4)
			m.Memory(1, 1)
			m.Global(encode.I32, true, encode.Const32(0))
			m.Func(nil, nil, i32, 0x00, code, immediate, 0x00)
			m.Element(1, 0, encode.List([][]byte{{0}}))
			m.PassiveData("x")
			compiled, err := runtime.CompileModule(t.Context(), m.Bytes())
			if err != nil {
				continue
			}
			require.NoError(t, compiled.Close(t.Context()))
			if undecoded(code) {
				// wazero takes more encodings than the specification has; we refuse those.
				_, err := rewrite(m.Bytes())
				require.ErrorContains(t, err, "instruction 0x", "% x", code)
				continue
			}
			accepted[string(code)] = true
			parsed, err := fuel.Parse(m.Bytes())
			require.NoError(t, err, "% x % x", code, immediate)
			rewritten, err := parsed.Meter(testNames)
			require.NoError(t, err, "% x % x", code, immediate)
			compiled, err = runtime.CompileModule(t.Context(), rewritten.Wasm)
			require.NoError(t, err, "% x % x", code, immediate)
			require.NoError(t, compiled.Close(t.Context()))
		}
	}
	assert.Greater(t, len(accepted), 400, "the test itself must find the instructions")
}

// undecoded reports whether a SIMD instruction is encoded as only wazero takes it.
func undecoded(code []byte) bool {
	return code[0] == 0xfd && len(code) == 3 && code[1] >= 0x80 && code[2] != 1
}

func rewrite(wasm []byte) (*fuel.Rewritten, error) {
	m, err := fuel.Parse(wasm)
	if err != nil {
		return nil, err
	}
	return m.Meter(testNames)
}

// Every first byte of an instruction, and every number behind a prefix, is either
// decoded or refused by its number or by the proposal that it belongs to.
func TestEveryOpcodeIsDecodedOrRefusedByName(t *testing.T) {
	for op := range 256 {
		codes := [][]byte{{byte(op)}}
		for _, prefix := range []int{0xfb, 0xfc, 0xfd, 0xfe} {
			codes = append(codes, encode.Code(prefix, encode.Uleb(uint64(op))))
		}
		for _, code := range codes {
			if len(code) == 1 && code[0] >= 0xfb && code[0] <= 0xfe {
				continue // a prefix alone
			}
			// Zeros serve as whatever immediates it has; what is left of them are
			// unreachable instructions.
			_, err := rewrite(full(i32, code, make([]byte, 18)).Bytes())
			if err == nil {
				continue
			}
			named := false
			for _, words := range []string{"instruction 0x", "does not support: build it without", "else has no if", "after the end", "does not end", "value type 0x0 is unknown", "ref.null of type 0x0 is unknown", "leaves 1 blocks"} {
				named = named || strings.Contains(err.Error(), words)
			}
			assert.True(t, named, "% x: %v", code, err)
		}
	}
}
