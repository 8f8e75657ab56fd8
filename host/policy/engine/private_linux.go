package engine

import (
	"io/fs"
	"os"
	"syscall"
)

// private tells whether something is a directory of this user that nobody else may
// write to, or read.
func private(info fs.FileInfo) bool {
	owner, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.IsDir() && info.Mode().Perm()&0o077 == 0 && int(owner.Uid) == os.Geteuid()
}
