package volumecopy

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// receiver writes a volume. It reaches nothing outside of the folder, whatever the stream names.
type receiver struct {
	root *os.Root
	seen map[string]bool
	// folders get their modes and times last, children first.
	folders []*tar.Header
}

// Receive makes a folder equal to what Send wrote: what the stream does not name is removed, once
// its end has been read. A file appears under its name when all of it is written.
func Receive(dir string, in io.Reader) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("opening the volume: %w", err)
	}
	r := &receiver{root: root, seen: map[string]bool{LostAndFound: true}}
	if err := errors.Join(r.receive(in), root.Close()); err != nil {
		return fmt.Errorf("writing the volume: %w", err)
	}
	return nil
}

func (r *receiver) receive(in io.Reader) error {
	stream := tar.NewReader(in)
	for {
		header, err := stream.Next()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("the stream was cut: %w", io.ErrUnexpectedEOF)
		}
		if err != nil {
			return fmt.Errorf("reading the stream: %w", err)
		}
		if header.Name == end {
			break
		}
		header.Name = path.Clean(header.Name)
		if !isLocal(header.Name) {
			return fmt.Errorf("the stream names %q, which is not in the volume", header.Name)
		}
		r.seen[header.Name] = true
		if err := r.write(header, stream); err != nil {
			return fmt.Errorf("writing %q: %w", header.Name, err)
		}
	}
	// The trailer is read, so that the sender does not wait.
	if _, err := io.Copy(io.Discard, in); err != nil {
		return fmt.Errorf("reading the end of the stream: %w", err)
	}
	return r.finish()
}

func (r *receiver) write(header *tar.Header, content io.Reader) error {
	if header.PAXRecords[keep] != "" {
		return r.keep(header)
	}
	if err := r.clear(header); err != nil {
		return err
	}
	switch header.Typeflag {
	case tar.TypeDir:
		r.folders = append(r.folders, header)
		if err := r.root.Mkdir(header.Name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err //nolint:wrapcheck // Wrapped by the caller.
		}
		return nil
	case tar.TypeReg:
		return r.writeFile(header, content)
	case tar.TypeSymlink:
		if err := r.root.Symlink(header.Linkname, header.Name); err != nil {
			return err //nolint:wrapcheck // Wrapped by the caller.
		}
		return r.root.Lchown(header.Name, header.Uid, header.Gid) //nolint:wrapcheck // Wrapped by the caller.
	case tar.TypeLink:
		if !isLocal(header.Linkname) {
			return fmt.Errorf("it is a link to %q, which is not in the volume", header.Linkname)
		}
		return r.root.Link(header.Linkname, header.Name) //nolint:wrapcheck // Wrapped by the caller.
	default:
		return fmt.Errorf("unknown type %q", header.Typeflag)
	}
}

// clear removes what is in the place of an entry, unless both are folders.
func (r *receiver) clear(header *tar.Header) error {
	info, err := r.root.Lstat(header.Name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() && header.Typeflag == tar.TypeDir {
		return nil
	}
	if err != nil {
		return err //nolint:wrapcheck // Wrapped by the caller.
	}
	return r.root.RemoveAll(header.Name) //nolint:wrapcheck // Wrapped by the caller.
}

// keep leaves the content of a file that the receiver has listed.
func (r *receiver) keep(header *tar.Header) error {
	info, err := r.root.Lstat(header.Name)
	if err != nil {
		return err //nolint:wrapcheck // Wrapped by the caller.
	}
	if !info.Mode().IsRegular() {
		return errors.New("the file was replaced while the volume was copied")
	}
	return r.describe(header.Name, header)
}

func (r *receiver) writeFile(header *tar.Header, content io.Reader) error {
	f, err := r.root.OpenFile(part, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err //nolint:wrapcheck // Wrapped by the caller.
	}
	_, err = io.Copy(f, content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := r.describe(part, header); err != nil {
		return err
	}
	return r.root.Rename(part, header.Name) //nolint:wrapcheck // Wrapped by the caller.
}

// describe sets owner, mode and time of a file. The owner comes first: it resets mode bits.
func (r *receiver) describe(name string, header *tar.Header) error {
	return errors.Join(
		r.root.Lchown(name, header.Uid, header.Gid),
		r.root.Chmod(name, header.FileInfo().Mode()),
		r.root.Chtimes(name, time.Time{}, header.ModTime),
	)
}

// finish removes what the stream did not name, and completes the folders.
func (r *receiver) finish() error {
	var stale []string
	err := fs.WalkDir(r.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == LostAndFound:
			return fs.SkipDir
		case !r.seen[name] && name != ".":
			stale = append(stale, name)
			if d.IsDir() {
				return fs.SkipDir
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("looking for files that are not in the source: %w", err)
	}
	for _, name := range stale {
		if err := r.root.RemoveAll(name); err != nil {
			return fmt.Errorf("removing %q, which is not in the source: %w", name, err)
		}
	}
	for _, folder := range slices.Backward(r.folders) {
		if err := r.describe(folder.Name, folder); err != nil {
			return fmt.Errorf("completing folder %q: %w", folder.Name, err)
		}
	}
	return r.sync()
}

// sync has the file system write everything.
func (r *receiver) sync() error {
	f, err := r.root.Open(".")
	if err != nil {
		return err //nolint:wrapcheck // Wrapped by the caller.
	}
	return errors.Join(unix.Syncfs(int(f.Fd())), f.Close())
}
