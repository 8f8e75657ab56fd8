package module

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/longshore-dev/longshore/sdk/contract"
)

// Magic numbers.
var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// Unpack returns the wasm bytes of a module that may be compressed with gzip or zstd. It
// stops at contract.MaxModuleBytes.
func Unpack(raw []byte) ([]byte, error) {
	switch {
	case len(raw) == 0:
		return nil, errors.New("the module is empty; the operator must supply its bytes")
	case bytes.HasPrefix(raw, gzipMagic):
		r, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			return nil, damaged("gzip", err)
		}
		return readAll(r, "gzip")
	case bytes.HasPrefix(raw, zstdMagic):
		r, err := zstd.NewReader(bytes.NewReader(raw), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(contract.MaxModuleBytes), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, damaged("zstd", err)
		}
		defer r.Close()
		return readAll(r, "zstd")
	case len(raw) > contract.MaxModuleBytes:
		return nil, tooLarge()
	default:
		return raw, nil
	}
}

func readAll(r io.Reader, format string) ([]byte, error) {
	wasm, err := io.ReadAll(io.LimitReader(r, contract.MaxModuleBytes+1))
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded), errors.Is(err, zstd.ErrWindowSizeExceeded), len(wasm) > contract.MaxModuleBytes:
		return nil, tooLarge()
	case err != nil:
		return nil, damaged(format, err)
	case len(wasm) == 0:
		return nil, fmt.Errorf("the %s data is empty; the operator must supply a module", format)
	}
	return wasm, nil
}

func damaged(format string, err error) error {
	return fmt.Errorf("the %s data is damaged or cut off; the operator must upload the module again: %w", format, err)
}

func tooLarge() error {
	return fmt.Errorf("the unpacked module is larger than %d MiB; its author must make it smaller (see docs: no k8s.io packages in a guest, -ldflags=-s -w)", contract.MaxModuleBytes>>20)
}
