//go:build !linux

package engine

import "io/fs"

func isPrivate(info fs.FileInfo) bool { return info.IsDir() }

func isReadOnly(info fs.FileInfo) bool { return info.IsDir() }
