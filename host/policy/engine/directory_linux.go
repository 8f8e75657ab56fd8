package engine

import (
	"io/fs"
	"os"
	"syscall"
)

// isPrivate reports whether info is of a directory to which only this user has access.
func isPrivate(info fs.FileInfo) bool {
	owner, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.IsDir() && info.Mode().Perm()&0o077 == 0 && int(owner.Uid) == os.Geteuid()
}

// isReadOnly reports whether info is of a directory of root's or this user's that other users
// cannot write to.
func isReadOnly(info fs.FileInfo) bool {
	owner, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.IsDir() && info.Mode().Perm()&0o022 == 0 && (owner.Uid == 0 || int(owner.Uid) == os.Geteuid())
}
