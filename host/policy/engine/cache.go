package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	goruntime "runtime"
	"sort"

	"github.com/tetratelabs/wazero"
)

// cache keeps compiled modules on disk. wazero checks little of what it reads back,
// and reads machine code, so an entry is used only when the digests of all its files
// are those that were recorded when it was complete. Entries are directories that
// appear by a rename, so several processes may share a cache.
//
// The digests find damage, not malice: who may write to the cache may as well write
// to the program.
type cache struct {
	root string
}

const (
	// wazeroVersion is part of the cache's name, since wazero itself does not know its
	// version in test binaries. A test compares it with go.mod.
	wazeroVersion = "v1.12.0"
	// cacheFormat changes when this file does.
	cacheFormat = "1"
	// sumsFile records the digests of the other files of an entry.
	sumsFile = "SHA256SUMS.json"
	// maxEntries bounds the entries of a cache; the oldest go first.
	maxEntries = 64
)

func openCache(dir string) (*cache, error) {
	root := filepath.Join(dir, fmt.Sprintf("engine%s-wazero-%s-%s-%s", cacheFormat, wazeroVersion, goruntime.GOOS, goruntime.GOARCH))
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, fmt.Errorf("opening the cache of compiled policy modules; the operator must make its directory writable: %w", err)
	}
	return &cache{root: root}, nil
}

// use calls build with a compilation cache for the module. When that fails, it calls
// build once more without: a cache may cost time, never a module.
func (c *cache) use(wasm []byte, build func(wazero.CompilationCache) error) error {
	if c == nil {
		return build(nil)
	}
	digest := sha256.Sum256(wasm)
	entry := filepath.Join(c.root, hex.EncodeToString(digest[:]))
	work, err := os.MkdirTemp(c.root, "work-")
	if err != nil {
		return build(nil)
	}
	defer func() { _ = os.RemoveAll(work) }() // leaves nothing but disk space behind when it fails
	known := adopt(entry, work)
	files, err := wazero.NewCompilationCacheWithDir(work)
	if err != nil {
		return build(nil)
	}
	if err := build(files); err != nil {
		if retry := build(nil); retry != nil {
			return retry
		}
		return nil
	}
	if c.store(work, entry, known) == nil {
		c.prune()
	}
	return nil
}

// adopt links the files of a complete and undamaged entry into the work directory and
// answers with their number. Any other entry is removed.
func adopt(entry, work string) int {
	recorded, err := readSums(entry)
	if err == nil {
		var found map[string]string
		if found, err = sums(entry); err == nil && !equalSums(recorded, found) {
			err = errors.New("the files are not those that were recorded")
		}
	}
	for name := range recorded {
		if err == nil {
			err = link(filepath.Join(entry, name), filepath.Join(work, name))
		}
	}
	if err != nil {
		// Gone or bad, it is the same: the module is compiled again.
		_ = os.RemoveAll(entry)
		return 0
	}
	return len(recorded)
}

// store makes the work directory the entry, if compiling added files to it.
func (c *cache) store(work, entry string, known int) error {
	found, err := sums(work)
	if err != nil || len(found) == known {
		return err
	}
	data, err := json.Marshal(found)
	if err != nil {
		return fmt.Errorf("encoding digests: %w", err)
	}
	if err := os.WriteFile(filepath.Join(work, sumsFile), data, 0o600); err != nil {
		return fmt.Errorf("recording digests: %w", err)
	}
	if err := os.RemoveAll(entry); err != nil {
		return fmt.Errorf("replacing a cache entry: %w", err)
	}
	if err := os.Rename(work, entry); err != nil {
		return fmt.Errorf("storing a cache entry: %w", err)
	}
	return nil
}

// prune removes the oldest entries beyond maxEntries.
func (c *cache) prune() {
	entries, err := os.ReadDir(c.root)
	if err != nil || len(entries) <= maxEntries {
		return
	}
	age := func(e os.DirEntry) int64 {
		info, err := e.Info()
		if err != nil {
			return 0
		}
		return info.ModTime().UnixNano()
	}
	sort.Slice(entries, func(a, b int) bool { return age(entries[a]) < age(entries[b]) })
	for _, e := range entries[:len(entries)-maxEntries] {
		_ = os.RemoveAll(filepath.Join(c.root, e.Name())) // it is tried again next time
	}
}

func readSums(dir string) (map[string]string, error) {
	data, err := os.ReadFile(filepath.Join(dir, sumsFile))
	if err != nil {
		return nil, fmt.Errorf("reading recorded digests: %w", err)
	}
	var recorded map[string]string
	if err := json.Unmarshal(data, &recorded); err != nil {
		return nil, fmt.Errorf("decoding recorded digests: %w", err)
	}
	return recorded, nil
}

// sums returns the digests of the regular files below a directory.
func sums(dir string) (map[string]string, error) {
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == sumsFile {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err //nolint:wrapcheck // wrapped below
		}
		f, err := os.Open(path)
		if err != nil {
			return err //nolint:wrapcheck // wrapped below
		}
		defer f.Close()
		h := sha256.New()
		if _, err := io.Copy(h, f); err != nil {
			return err //nolint:wrapcheck // wrapped below
		}
		found[name] = hex.EncodeToString(h.Sum(nil))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("computing digests: %w", err)
	}
	return found, nil
}

func equalSums(a, b map[string]string) bool {
	if len(a) != len(b) || len(a) == 0 {
		return false
	}
	for name, sum := range a {
		if b[name] != sum {
			return false
		}
	}
	return true
}

// link makes a file appear in another directory.
func link(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return fmt.Errorf("making a directory: %w", err)
	}
	if err := os.Link(from, to); err == nil {
		return nil
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("reading a cache entry: %w", err)
	}
	if err := os.WriteFile(to, data, 0o600); err != nil {
		return fmt.Errorf("copying a cache entry: %w", err)
	}
	return nil
}
