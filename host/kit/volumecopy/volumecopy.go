// Package volumecopy copies the files of a volume as a tar stream, for longshorectl move volume:
// one process sends a folder, another one receives it, and both sum up what they have. A copy
// that was interrupted is taken up. Sockets and named pipes hold no data and are not copied;
// devices are refused.
package volumecopy

// Names at the root of a volume that are not part of its data.
const (
	// LostAndFound is made by file systems.
	LostAndFound = "lost+found"
	// part is the file that is being received.
	part = ".longshore-part"
	// end is the name of the last entry of a stream: one that was cut has none.
	end = ".longshore-end"
	// keep is the record of a tar entry for a file that the receiver has.
	keep = "LONGSHORE.keep"
)

// Entry describes one file of a volume.
type Entry struct {
	// Path relative to the root of the volume, with slashes; "." is the root.
	Path string `json:"path"`
	// Size in bytes, of regular files.
	Size int64 `json:"size,omitempty"`
	// Modified is the time of the last change, in nanoseconds since 1970.
	Modified int64 `json:"modified,omitempty"`
}

// Summary is what a volume holds. Two volumes with the same Digest have the same names, types,
// owners, modes, links and contents.
type Summary struct {
	Digest string `json:"digest"`
	Files  int64  `json:"files"`
	Bytes  int64  `json:"bytes"`
}
