package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	goruntime "runtime"
	"sort"
	"strings"

	"github.com/tetratelabs/wazero"
)

// cache keeps compiled modules on disk. wazero's own directory has a checksum of the machine code
// only, not of the addresses of its functions, does not know which version of Go it is for, and
// grows without a bound. So an entry is used only when the digests of all its files are the
// recorded ones. Entries are directories that appear by a rename, so processes can share a cache.
//
// Write access to the cache is the right to run code in the process. So the cache must be a
// directory to which only the process's user has access; anything else in its place is
// removed or is an error. The digests, which are bound to the module of an entry, detect
// damage, exchanged entries and other versions. They do not protect from the same user or root.
//
// Entries can also come with the program, in a directory that nothing writes to. They are used
// before the cache, and where there is no cache.
type cache struct {
	// root of the entries; empty when compiled modules are not kept.
	root string
	// precompiled is the root of the entries that come with the program, or empty.
	precompiled string
}

const (
	// wazeroVersion is part of the cache's name, since wazero itself does not know its
	// version in test binaries. A test compares it with go.mod.
	wazeroVersion = "v1.12.0"
	// cacheFormat changes when this file does.
	cacheFormat = "2"
	// recordFile describes an entry, with the digests of its other files.
	recordFile = "entry.json"
	// maxEntries bounds the entries of a cache; the oldest go first.
	maxEntries = 64
	// maxFiles bounds the files of an entry, which usually has two.
	maxFiles = 8
)

// record describes an entry.
type record struct {
	// Module is the digest of the metered module that the entry is for.
	Module string `json:"module"`
	// Versions of the compiler.
	Versions string `json:"versions"`
	// Files are the digests of the other files, by name.
	Files map[string]string `json:"files"`
}

// versions returns the versions on which compiled code depends: it contains the layout of
// wazero's structures, which depends on Go. wazero's file names contain the processor's
// features.
func versions() string {
	return fmt.Sprintf("engine%s-wazero-%s-%s-%s-%s", cacheFormat, wazeroVersion, goruntime.Version(), goruntime.GOOS, goruntime.GOARCH)
}

// rootIn returns the root of the entries in a directory.
func rootIn(dir string) string {
	return filepath.Join(dir, strings.NewReplacer(" ", "_", string(filepath.Separator), "_").Replace(versions()))
}

// openCache opens the cache in dir, and the entries of the program in precompiled. Both may be
// empty, and the second may be absent.
func openCache(dir, precompiled string) (*cache, error) {
	c := &cache{}
	if precompiled != "" {
		c.precompiled = rootIn(precompiled)
	}
	if dir == "" {
		return c, nil
	}
	root := rootIn(dir)
	if info, err := os.Lstat(root); err == nil && !isPrivate(info) {
		if err := os.RemoveAll(root); err != nil {
			return nil, fmt.Errorf("opening the cache of compiled policy modules: other users have access to %s; the operator must remove it: %w", root, err)
		}
	}
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, fmt.Errorf("opening the cache of compiled policy modules; the operator must make its directory writable: %w", err)
	}
	info, err := os.Lstat(root)
	if err != nil {
		return nil, fmt.Errorf("opening the cache of compiled policy modules: %w", err)
	}
	if !isPrivate(info) {
		return nil, fmt.Errorf("opening the cache of compiled policy modules: other users have access to %s; the operator must give the process its own directory", root)
	}
	c.root = root
	return c, nil
}

// build calls f with a compilation cache for the module, and once more without when f fails:
// a damaged cache must not keep a module from being loaded. When compile is set, it compiles
// the module into a directory, and f always gets a cache with the result.
func (c *cache) build(wasm []byte, compile func(dir string) error, f func(wazero.CompilationCache) error) error {
	sum := sha256.Sum256(wasm)
	digest := hex.EncodeToString(sum[:])
	if c.loadPrecompiled(digest, f) {
		return nil
	}
	if c.root == "" {
		return buildUncached(compile, f)
	}
	entry := filepath.Join(c.root, digest)
	work, err := os.MkdirTemp(c.root, "work-")
	if err != nil {
		return buildUncached(compile, f)
	}
	defer func() { _ = os.RemoveAll(work) }() // a failure costs disk space, nothing else
	known := linkEntry(entry, work, digest)
	files, err := wazero.NewCompilationCacheWithDir(work)
	if err != nil {
		return buildUncached(compile, f)
	}
	if compile != nil && known == nil {
		if err := compile(work); err != nil {
			return err
		}
	}
	if err := f(files); err != nil {
		if compile != nil && known == nil {
			return err
		}
		return buildUncached(compile, f)
	}
	if c.store(work, entry, digest, known) == nil {
		c.prune()
	}
	return nil
}

// loadPrecompiled calls f with the entry that came with the program, and reports whether f
// succeeded. Without an entry, or on a processor without the features that it was compiled for,
// the module is compiled as any other.
func (c *cache) loadPrecompiled(digest string, f func(wazero.CompilationCache) error) bool {
	if c.precompiled == "" {
		return false
	}
	entry := filepath.Join(c.precompiled, digest)
	if info, err := os.Lstat(entry); err != nil || !isReadOnly(info) {
		return false
	}
	if _, err := verifyEntry(entry, digest); err != nil {
		return false
	}
	files, err := wazero.NewCompilationCacheWithDir(entry)
	return err == nil && f(files) == nil
}

// buildUncached calls f with a temporary cache that compile has filled, or with none.
func buildUncached(compile func(dir string) error, f func(wazero.CompilationCache) error) error {
	if compile == nil {
		return f(nil)
	}
	work, err := os.MkdirTemp("", "longshore-compiled-")
	if err != nil {
		return fmt.Errorf("making a directory for compiled modules; the operator must set a cache directory that the process can write to: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	if err := compile(work); err != nil {
		return err
	}
	files, err := wazero.NewCompilationCacheWithDir(work)
	if err != nil {
		return fmt.Errorf("opening the directory of compiled modules: %w", err)
	}
	return f(files)
}

// linkEntry links the files of a complete and undamaged entry into the work directory and
// returns their digests. Any other entry is removed.
func linkEntry(entry, work, module string) map[string]string {
	known, err := verifyEntry(entry, module)
	for name := range known {
		if err == nil {
			err = link(filepath.Join(entry, name), filepath.Join(work, name))
		}
	}
	if err != nil || len(known) == 0 {
		// The module is compiled again. An entry that cannot be removed is not used the
		// next time either.
		_ = os.RemoveAll(entry)
		return nil
	}
	return known
}

// verifyEntry returns the digests of the files of an entry, if it is complete and undamaged and
// belongs to the module.
func verifyEntry(entry, module string) (map[string]string, error) {
	known, err := readRecord(entry)
	if err != nil {
		return nil, err
	}
	if known.Module != module || known.Versions != versions() {
		return nil, errors.New("the entry belongs to another module or version")
	}
	found, err := sums(entry)
	if err != nil {
		return nil, err
	}
	if !maps.Equal(known.Files, found) {
		return nil, errors.New("the files are not the recorded ones")
	}
	return found, nil
}

// store makes the work directory the entry if compiling added files to it, such as those for
// a processor with other features or a kernel for other limits. The known files are removed
// when there are too many.
func (c *cache) store(work, entry, module string, known map[string]string) error {
	found, err := sums(work)
	if err != nil || len(found) == len(known) {
		return err
	}
	for name := range known {
		if len(found) <= maxFiles {
			break
		}
		delete(found, name)
		if err := os.Remove(filepath.Join(work, name)); err != nil {
			return fmt.Errorf("removing a file of a cache entry: %w", err)
		}
	}
	data, err := json.Marshal(record{Module: module, Versions: versions(), Files: found})
	if err != nil {
		return fmt.Errorf("encoding a cache entry: %w", err)
	}
	if err := os.WriteFile(filepath.Join(work, recordFile), data, 0o600); err != nil {
		return fmt.Errorf("recording a cache entry: %w", err)
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
		_ = os.RemoveAll(filepath.Join(c.root, e.Name())) // the next prune tries again
	}
}

func readRecord(dir string) (record, error) {
	var r record
	data, err := os.ReadFile(filepath.Join(dir, recordFile))
	if err != nil {
		return r, fmt.Errorf("reading a cache entry: %w", err)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return record{}, fmt.Errorf("decoding a cache entry: %w", err)
	}
	// The record must be byte for byte as written.
	if again, err := json.Marshal(r); err != nil || !bytes.Equal(again, data) {
		return record{}, errors.New("a cache entry was altered")
	}
	return r, nil
}

// sums returns the digests of the regular files below a directory.
func sums(dir string) (map[string]string, error) {
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || path == filepath.Join(dir, recordFile) {
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

// link links a file into another directory, or copies it where that fails.
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
