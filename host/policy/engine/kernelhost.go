package engine

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/longshore-dev/longshore/host/kit/plaintext"
)

// Level of a log line.
type Level int

// The levels, as Extism numbers them.
const (
	LevelTrace Level = iota
	LevelDebug
	LevelInfo
	LevelWarn
	LevelError
)

// Line is a log line of a guest.
type Line struct {
	// Module and Point (the export) that wrote it.
	Module, Point string
	Level         Level
	// Message is text of the guest: valid UTF-8, at most 1 KiB.
	Message string
}

// instanceKey finds the instance in the context of its own calls.
type instanceKey struct{}

func instanceOf(ctx context.Context) *instance {
	i, _ := ctx.Value(instanceKey{}).(*instance)
	return i
}

// instantiateKernelHost defines what the kernel imports.
func instantiateKernelHost(ctx context.Context, runtime wazero.Runtime) error {
	word, none := []api.ValueType{api.ValueTypeI64}, []api.ValueType{}
	define := func(b wazero.HostModuleBuilder, name string, params, results []api.ValueType, f func(*instance, []uint64)) {
		b.NewFunctionBuilder().WithGoFunction(api.GoFunc(func(ctx context.Context, stack []uint64) {
			f(instanceOf(ctx), stack)
		}), params, results).Export(name)
	}
	b := runtime.NewHostModuleBuilder(kernelHostModule)
	define(b, "log", []api.ValueType{api.ValueTypeI32, api.ValueTypeI64}, none, func(i *instance, s []uint64) {
		i.log(Level(uint32(s[0])), s[1])
	})
	define(b, "var_get", word, word, func(i *instance, s []uint64) { s[0] = i.variable(s[0]) })
	define(b, "var_set", []api.ValueType{api.ValueTypeI64, api.ValueTypeI64}, none, func(i *instance, s []uint64) {
		i.setVariable(s[0], s[1])
	})
	define(b, "denied", word, none, func(i *instance, s []uint64) { i.deniedRequest = string(i.block(s[0])) })
	if _, err := b.Instantiate(ctx); err != nil {
		return fmt.Errorf("defining the kernel's imports: %w", err)
	}
	return nil
}

// block returns the block of kernel memory at an address, or nil. It is the host's
// blockLength, and checks everything that the guest may have written.
func (i *instance) block(address uint64) []byte {
	top := min(i.global.top.Get(), uint64(len(i.kernelMemory.reserved)))
	if address < inputOffset+blockHeader || address >= top {
		return nil
	}
	memory := i.kernelMemory.reserved
	if binary.LittleEndian.Uint64(memory[address-blockHeader:]) != address^blockMark {
		return nil
	}
	length := binary.LittleEndian.Uint64(memory[address-8:])
	if length > top-address {
		return nil
	}
	return memory[address : address+length]
}

// allocate is the host's alloc. It returns 0 when the memory is full.
func (i *instance) allocate(data []byte) uint64 {
	memory, top := i.kernelMemory.reserved, i.global.top.Get()
	address := top + blockHeader
	end := blockEnd(address + uint64(len(data)))
	if len(data) == 0 || end > uint64(len(memory)) {
		return 0
	}
	binary.LittleEndian.PutUint64(memory[top:], address^blockMark)
	binary.LittleEndian.PutUint64(memory[top+8:], uint64(len(data)))
	copy(memory[address:], data)
	i.global.top.Set(end)
	return address
}

func (i *instance) log(level Level, address uint64) {
	enough := i.spend(lineParts)
	if len(i.lines) >= i.module.limits.LogLines {
		i.droppedLines++
		return
	}
	if !enough {
		return
	}
	text := i.block(address)
	i.lines = append(i.lines, Line{Level: level, Message: plaintext.Line(string(text[:min(len(text), maxLineBytes)]))})
}

// variable returns the address of a copy of the variable, or 0 when it is not set.
func (i *instance) variable(name uint64) uint64 {
	key := i.block(name)
	if !i.spend(hostParts + int64(len(key)/bytesPerPart)) {
		return 0
	}
	value, ok := i.variables[string(key)]
	if !ok || !i.spend(int64(len(value)/bytesPerPart)) {
		return 0
	}
	return i.allocate(value)
}

// setVariable sets a variable until the end of the call.
func (i *instance) setVariable(name, value uint64) {
	key, data := i.block(name), i.block(value)
	if !i.spend(hostParts + int64((len(key)+len(data))/bytesPerPart)) {
		return
	}
	if value == 0 {
		delete(i.variables, string(key))
		return
	}
	// Earlier values count, too, so that a loop of sets ends.
	if i.variableBytes += len(key) + len(data); i.variableBytes > maxVariableBytes {
		return
	}
	if i.variables == nil {
		i.variables = map[string][]byte{}
	}
	i.variables[string(key)] = append([]byte(nil), data...)
}
