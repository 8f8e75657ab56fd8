//go:build !linux

package engine

import "io/fs"

func private(info fs.FileInfo) bool { return info.IsDir() }
