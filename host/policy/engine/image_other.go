//go:build !linux

package engine

import "errors"

func shareContent([]byte) ([]byte, int, error) { return nil, -1, nil }

func closeFile(int) {}

func mapAt([]byte, int) error { return errors.New("memory is shared on Linux only") }

func protect([]byte) error { return nil }

func readPages([]byte, []uint64) bool { return false }
