package volumecopy

import (
	"archive/tar"
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// entry is a file with what a tar header says of it.
type entry struct {
	*tar.Header
	// file is where the content is.
	file string
}

// walk calls a function with every file of a folder, parents first, in the order of names. Hard
// links after the first name of a file are links to it.
func walk(dir string, do func(entry) error) error {
	first := map[[2]uint64]string{}
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err //nolint:wrapcheck // Wrapped below.
		}
		if name == LostAndFound && d.IsDir() {
			return fs.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err //nolint:wrapcheck // Wrapped below.
		}
		if name == part || info.Mode()&(fs.ModeSocket|fs.ModeNamedPipe) != 0 {
			return nil
		}
		header, err := describe(file, filepath.ToSlash(name), info, first)
		if err != nil {
			return err
		}
		return do(entry{header, file})
	})
	if err != nil {
		return fmt.Errorf("reading the volume: %w", err)
	}
	return nil
}

func describe(file, name string, info fs.FileInfo, first map[[2]uint64]string) (*tar.Header, error) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || info.Mode()&(fs.ModeDevice|fs.ModeCharDevice|fs.ModeIrregular) != 0 {
		return nil, fmt.Errorf("%q is a device or of an unknown type, which is not copied: remove it first", name)
	}
	target := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		var err error
		if target, err = os.Readlink(file); err != nil {
			return nil, err //nolint:wrapcheck // It names the file.
		}
	}
	header, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return nil, fmt.Errorf("describing %q: %w", name, err)
	}
	header.Name, header.Format = name, tar.FormatPAX
	// Names of users are those of the image, not of the volume.
	header.Uname, header.Gname = "", ""
	header.AccessTime, header.ChangeTime = time.Time{}, time.Time{}
	if header.Typeflag == tar.TypeReg && stat.Nlink > 1 {
		key := [2]uint64{stat.Dev, stat.Ino}
		if other, ok := first[key]; ok {
			header.Typeflag, header.Linkname, header.Size = tar.TypeLink, other, 0
		} else {
			first[key] = name
		}
	}
	return header, nil
}

// List writes the regular files of a folder as JSON lines.
func List(dir string, out io.Writer) error {
	buffered := bufio.NewWriter(out)
	encoder := json.NewEncoder(buffered)
	if err := walk(dir, func(e entry) error {
		if e.Typeflag != tar.TypeReg {
			return nil
		}
		return encoder.Encode(Entry{Path: e.Name, Size: e.Size, Modified: e.ModTime.UnixNano()})
	}); err != nil {
		return err
	}
	if err := buffered.Flush(); err != nil {
		return fmt.Errorf("writing the list: %w", err)
	}
	return nil
}

// readList reads what List wrote.
func readList(in io.Reader) (map[string]Entry, error) {
	have := map[string]Entry{}
	decoder := json.NewDecoder(in)
	for {
		e := Entry{}
		err := decoder.Decode(&e)
		if errors.Is(err, io.EOF) {
			return have, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the list of the other volume: %w", err)
		}
		have[e.Path] = e
	}
}

// Sum reads all of a folder. Times are not part of the digest, since file systems round them.
func Sum(dir string) (*Summary, error) {
	summary, total := &Summary{}, sha256.New()
	err := walk(dir, func(e entry) error {
		summary.Files++
		content := ""
		if e.Typeflag == tar.TypeReg {
			sum, err := sumFile(e.file)
			if err != nil {
				return err
			}
			content = sum
			summary.Bytes += e.Size
		}
		fields := []string{string(e.Typeflag), e.Name, e.Linkname, fmt.Sprintf("%o %d %d %d", e.Mode, e.Uid, e.Gid, e.Size), content}
		for _, field := range fields {
			fmt.Fprintf(total, "%d:%s", len(field), field) // Writing to a hash never fails.
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	summary.Digest = "sha256:" + hex.EncodeToString(total.Sum(nil))
	return summary, nil
}

func sumFile(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err //nolint:wrapcheck // It names the file.
	}
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("reading %q: %w", file, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Send writes a folder as a tar stream. Of the files that the receiver lists with the same size
// and time, only the names are sent.
func Send(dir string, have io.Reader, out io.Writer) error {
	theirs, err := readList(have)
	if err != nil {
		return err
	}
	stream := tar.NewWriter(out)
	if err := walk(dir, func(e entry) error { return send(stream, e, theirs) }); err != nil {
		return err
	}
	if err := stream.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: end, Format: tar.FormatPAX}); err != nil {
		return fmt.Errorf("writing the stream: %w", err)
	}
	if err := stream.Close(); err != nil {
		return fmt.Errorf("writing the stream: %w", err)
	}
	return nil
}

func send(stream *tar.Writer, e entry, theirs map[string]Entry) error {
	size := e.Size
	if have, ok := theirs[e.Name]; ok && e.Typeflag == tar.TypeReg && have.Size == size && have.Modified == e.ModTime.UnixNano() {
		e.PAXRecords, e.Size = map[string]string{keep: "true"}, 0
	}
	if err := stream.WriteHeader(e.Header); err != nil {
		return fmt.Errorf("sending %q: %w", e.Name, err)
	}
	if e.Typeflag != tar.TypeReg || e.Size == 0 {
		return nil
	}
	f, err := os.Open(e.file)
	if err != nil {
		return err //nolint:wrapcheck // It names the file.
	}
	written, err := io.Copy(stream, io.LimitReader(f, size))
	if err = errors.Join(err, f.Close()); err == nil && written != size {
		err = errors.New("the file became shorter while it was read: stop what writes it")
	}
	if err != nil {
		return fmt.Errorf("sending %q: %w", e.Name, err)
	}
	return nil
}

// isLocal reports whether a name of a stream stays in the volume.
func isLocal(name string) bool {
	return filepath.IsLocal(name) && name != part && name != LostAndFound && !strings.HasPrefix(name, LostAndFound+"/")
}
