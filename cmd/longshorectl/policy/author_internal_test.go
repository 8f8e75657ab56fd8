package policy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/longshore-dev/longshore/conformance/guests"
	"github.com/longshore-dev/longshore/conformance/guests/toolchain"
	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/rust"
)

// The Makefile of a project and policy build have one command.
func TestMakefilesBuildAsPolicyBuildDoes(t *testing.T) {
	for name, c := range compilers {
		makefile, err := projects.ReadFile("project/" + name + "/Makefile.tmpl")
		require.NoError(t, err)
		assert.Contains(t, languages, name)
		if c.find != nil {
			assert.Contains(t, string(makefile), "\n\t$(LONGSHORECTL) policy build\n", "policy build finds the compiler")
			page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "reference", "abi.md"))
			require.NoError(t, err)
			for _, text := range []string{string(page), rust.Source} {
				assert.Contains(t, text, "rustc "+strings.Join(c.arguments, " "))
			}
			continue
		}
		text := strings.NewReplacer("-ldflags='-s -w'", "-ldflags=-s -w").Replace(string(makefile))
		assert.Contains(t, text, " "+strings.Join(c.arguments, " ")+"\n", name)
		if c.variable != "" {
			assert.Regexp(t, c.variable+` \??= `+strings.Join(c.command, " "), text)
		}
	}
	assert.Len(t, compilers, len(languages))
}

func TestTheLanguageOfAProjectIsNotGuessed(t *testing.T) {
	folder := t.TempDir()
	_, err := languageOf(folder)
	require.ErrorContains(t, err, "has none of policy.ts, policy.c, go.mod, policy.rs")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "policy.c"), nil, 0o600))
	language, err := languageOf(folder)
	require.NoError(t, err)
	assert.Equal(t, "c", language)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "go.mod"), nil, 0o600))
	_, err = languageOf(folder)
	require.ErrorContains(t, err, "has policy.c and go.mod, of which one is the policy")
}

func TestBuildCompilesWithTheCompilerOfTheEnvironment(t *testing.T) {
	clang, err := toolchain.Clang()
	toolchain.Need(t, err)
	project := &Project{Name: "mine", Folder: filepath.Join(t.TempDir(), "mine"), Language: "c", Point: contract.PodMutation}
	require.NoError(t, project.write())
	s := Streams{Getenv: func(name string) string { return map[string]string{"CC": clang}[name] }}
	built, err := s.build(t.Context(), project.Folder)
	require.NoError(t, err)
	assert.Equal(t, "c", built.Language)
	assert.Contains(t, built.Digest, "sha256:")
	report, err := s.test(t.Context(), built.File, filepath.Join(project.Folder, "vectors"))
	require.NoError(t, err)
	assert.Equal(t, 1, report.Passed)

	require.NoError(t, os.Remove(filepath.Join(project.Folder, "longshore.h")))
	again, err := s.build(t.Context(), project.Folder)
	require.NoError(t, err, "the SDK is that of longshorectl")
	assert.Equal(t, built.Digest, again.Digest)
	require.NoError(t, os.WriteFile(filepath.Join(project.Folder, "policy.c"), []byte("this is not C"), 0o600))
	_, err = s.build(t.Context(), project.Folder)
	require.ErrorContains(t, err, "error:")
	_, err = s.build(t.Context(), t.TempDir())
	require.ErrorContains(t, err, "create a project with longshorectl policy init")
}

// The first rustc of a machine may lack the target; one that has it is found, and one that the user names
// is used as it is.
func TestBuildFindsACompilerOfRustWithTheTarget(t *testing.T) {
	rustc, err := toolchain.Rustc(t.Context())
	toolchain.Need(t, err)
	lacking := t.TempDir()
	script := "#!/bin/sh\necho " + filepath.Join(lacking, "none") + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(lacking, "rustc"), []byte(script), 0o700))
	project := &Project{Name: "mine", Folder: filepath.Join(t.TempDir(), "mine"), Language: "rust", Point: contract.PodMutation}
	require.NoError(t, project.write())
	environment := map[string]string{"PATH": lacking + string(filepath.ListSeparator) + filepath.Dir(rustc)}
	s := Streams{Getenv: func(name string) string { return environment[name] }}
	built, err := s.build(t.Context(), project.Folder)
	require.NoError(t, err)
	assert.Equal(t, "rust", built.Language)

	require.NoError(t, os.Remove(filepath.Join(project.Folder, "longshore.rs")))
	again, err := s.build(t.Context(), project.Folder)
	require.NoError(t, err, "the SDK is that of longshorectl")
	assert.Equal(t, built.Digest, again.Digest)
	assert.NoFileExists(t, filepath.Join(project.Folder, "longshore.rs"), "what a build writes is removed")

	environment["PATH"] = lacking
	_, err = s.build(t.Context(), project.Folder)
	require.ErrorContains(t, err, "apt-get install rustc libstd-rust-dev-wasm32 lld")
	require.ErrorContains(t, err, "rustup target add wasm32-unknown-unknown")
	require.ErrorContains(t, err, "without it: "+filepath.Join(lacking, "rustc"))
	environment["RUSTC"] = rustc
	_, err = s.build(t.Context(), project.Folder)
	require.NoError(t, err)
}

// What does not fit into a ConfigMap is distributed, and its bytes come together again.
func TestSplitDistributesLargeModules(t *testing.T) {
	for name, tc := range map[string]struct {
		bytes, want int
		wantError   string
	}{
		"one that fits":       {partBytes, 1, ""},
		"one byte too many":   {partBytes + 1, 2, ""},
		"as many as can be":   {maxParts * partBytes, maxParts, ""},
		"more than there are": {maxParts*partBytes + 1, 0, "more than 16 ConfigMaps hold: compress it"},
	} {
		t.Run(name, func(t *testing.T) {
			data := []byte(strings.Repeat("0123456789abcdef", tc.bytes/16+1))[:tc.bytes]
			configMaps, source, err := split(&pushOptions{name: "large", namespace: "longshore", module: data})
			if tc.wantError != "" {
				require.ErrorContains(t, err, tc.wantError)
				return
			}
			require.NoError(t, err)
			require.Len(t, configMaps, tc.want)
			assert.Len(t, source.Parts, tc.want-1)
			var whole []byte
			for i, configMap := range configMaps {
				whole = append(whole, configMap.BinaryData[source.Key]...)
				assert.Equal(t, append([]string{source.Name}, source.Parts...)[i], configMap.Name)
				assert.LessOrEqual(t, configMap.Size(), corev1.MaxSecretSize, "the API server stores it")
			}
			assert.Equal(t, data, whole)
		})
	}
}

func TestSplitCompressesWhatIsNot(t *testing.T) {
	var text guests.Guest
	for _, g := range guests.All() {
		if g.Name == "text" {
			text = g
		}
	}
	wasm := text.Wasm(t)
	for key, data := range map[string][]byte{"module.wasm.gz": wasm, "module.wasm.zst": []byte("\x28\xb5\x2f\xfd…")} {
		configMaps, source, err := split(&pushOptions{name: "a", module: data})
		require.NoError(t, err)
		assert.Equal(t, key, source.Key)
		assert.NotEqual(t, wasm, configMaps[0].BinaryData[key])
	}
}

// A project needs no golden cases to be watched, but its module must load.
func TestWatchNeedsNoGoldenCases(t *testing.T) {
	folder := t.TempDir()
	file, vectors := filepath.Join(folder, moduleFile), filepath.Join(folder, "vectors")
	var printed []string
	log := func(format string, arguments ...any) { printed = append(printed, fmt.Sprintf(format, arguments...)) }
	for _, g := range guests.All() {
		if g.Name == "text" {
			require.NoError(t, os.WriteFile(file, g.Wasm(t), 0o600))
		}
	}
	isGood, err := Streams{}.tryModule(t.Context(), file, vectors, log)
	require.NoError(t, err)
	assert.True(t, isGood)
	assert.Equal(t, []string{"loaded  there are no golden cases: the project has no folder vectors"}, printed)

	require.NoError(t, os.WriteFile(file, []byte("no module"), 0o600))
	_, err = Streams{}.tryModule(t.Context(), file, vectors, log)
	require.ErrorContains(t, err, "not a WebAssembly module")
}

// The project is run at once, and when a file of it was saved. Errors do not end that.
func TestWatchRunsWhenAFileIsSaved(t *testing.T) {
	folder := t.TempDir()
	save := func(name string, at int64) {
		path := filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
		require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
		require.NoError(t, os.Chtimes(path, time.Unix(at, 0), time.Unix(at, 0)))
	}
	save("policy.c", 1)
	runs := 0
	var failure error
	var printed []string
	w := &watcher{
		folder: folder,
		run:    func(context.Context) error { runs++; return failure },
		print:  func(format string, arguments ...any) { printed = append(printed, fmt.Sprintf(format, arguments...)) },
	}
	look := func(what string, want int) {
		before := runs
		require.NoError(t, w.look(t.Context()))
		assert.Equal(t, want, runs-before, what)
	}
	look("the first time", 1)
	look("nothing changed", 0)
	save("policy.c", 2)
	failure = errors.New("no compiler")
	look("the policy was saved", 1)
	assert.Equal(t, []string{"failed  no compiler"}, printed)
	failure = nil
	look("after a failure", 0)
	save("module.wasm", 3)
	save("module.wasm.gz", 3)
	save("node_modules/a.js", 3)
	save(".policy.c.swp", 3)
	look("what is not of the project", 0)
	save("vectors/new.json", 3)
	look("a new case", 1)
	require.NoError(t, os.Remove(filepath.Join(folder, "policy.c")))
	look("a file was removed", 1)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, w.watch(ctx, nil), "it ends with the context")
}
