package policy

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/host/policy/module"
	"github.com/longshore-dev/longshore/sdk/rust"
)

// moduleFile is the file of a built module.
const moduleFile = "module.wasm"

// compiler builds projects of one language.
type compiler struct {
	// source is the file by which the language is recognized.
	source string
	// variable names another compiler, as in the project's Makefile; empty for none.
	variable string
	// command of the compiler, then its arguments.
	command, arguments []string
	// find returns the compiler when command is empty, given the folders of PATH.
	find        func(ctx context.Context, path string) (string, error)
	environment []string
}

// compilers have the commands of the Makefiles that policy init writes.
var compilers = map[string]compiler{
	"go": {
		source: "go.mod", command: []string{"go"}, environment: []string{"GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0"},
		arguments: []string{"build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w", "-o", moduleFile, "."},
	},
	"c": {
		source: "policy.c", variable: "CC", command: []string{"clang"},
		arguments: []string{"--target=wasm32", "-O2", "-nostdlib", "-ffreestanding", "-Wall", "-Wextra", "-Wl,--no-entry", "-Wl,--strip-all", "-o", moduleFile, "policy.c"},
	},
	"assemblyscript": {
		source: "policy.ts", variable: "ASC", command: []string{"npx", "--no-install", "asc"},
		arguments: []string{"policy.ts", "--optimize", "--runtime", "stub", "--use", "abort=~lib/@longshore/policy/index/stop", "--outFile", moduleFile},
	},
	"rust": {source: "policy.rs", variable: "RUSTC", find: rust.Compiler, arguments: rust.Arguments("policy.rs", moduleFile)},
}

// Built is a module that was built.
type Built struct {
	// File is the compressed module.
	File     string `json:"file"`
	Language string `json:"language"`
	Digest   string `json:"digest"`
	// Bytes of the file, UnpackedBytes of the module in it.
	Bytes         int `json:"bytes"`
	UnpackedBytes int `json:"unpackedBytes"`
}

func (b *Built) text(w io.Writer) error {
	p := &printer{w: w}
	p.line("%s: %s, %s unpacked, digest %s", b.File, size(b.Bytes), size(b.UnpackedBytes), b.Digest)
	return p.err
}

const buildExample = `  # The module of the project in this folder
  longshorectl policy build

  # With another compiler
  CC=/opt/wasi-sdk/bin/clang longshorectl policy build my-policy`

func buildCommand(streams Streams) *cobra.Command {
	var format output.Format
	command := &cobra.Command{
		Use:   "build [FOLDER]",
		Short: "Compile the module of a project, as module.wasm and module.wasm.gz",
		Long: "Compile the module of a project that policy init created, or that is like one: Go with a go.mod, C in policy.c, AssemblyScript\n" +
			"in policy.ts, or Rust in policy.rs. The compiler of the language must be installed; the SDKs for C and Rust are in\n" +
			"longshorectl. For Rust, the first rustc in PATH that has the target wasm32-unknown-unknown compiles. The environment\n" +
			"variables CC, ASC and RUSTC name another compiler.\n" +
			"Exit codes: 0 built, 1 the compiler reports an error or is missing, 2 wrong command line.",
		Example: buildExample,
		Args:    atMostOneFolder,
		RunE: func(cmd *cobra.Command, args []string) error {
			built, err := streams.build(cmd.Context(), folderOf(args))
			if err != nil {
				return err
			}
			return output.Print(streams.Out, format, built, built.text)
		},
	}
	format.AddTo(command.Flags())
	return command
}

func atMostOneFolder(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return output.Usagef("want at most one folder, got %d arguments", len(args))
	}
	return nil
}

// folderOf returns the folder that a command line names, or the current one.
func folderOf(args []string) string {
	if len(args) == 0 {
		return "."
	}
	return args[0]
}

// languageOf recognizes the language of a project by its one source file.
func languageOf(folder string) (string, error) {
	var found, present, sources []string
	for _, name := range Languages() {
		source := compilers[name].source
		sources = append(sources, source)
		if _, err := os.Stat(filepath.Join(folder, source)); err == nil {
			found, present = append(found, name), append(present, source)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", fmt.Errorf("folder %s has none of %s: create a project with longshorectl policy init", folder, strings.Join(sources, ", "))
	default:
		return "", fmt.Errorf("folder %s has %s, of which one is the policy: move the others to another folder", folder, strings.Join(present, " and "))
	}
}

// build compiles and compresses the module of a project.
func (s Streams) build(ctx context.Context, folder string) (*Built, error) {
	language, err := languageOf(folder)
	if err != nil {
		return nil, err
	}
	c := compilers[language]
	command, err := s.compiler(ctx, c)
	if err != nil {
		return nil, err
	}
	remove, err := writeSDK(language, folder)
	if err != nil {
		return nil, err
	}
	defer remove()
	cmd := exec.CommandContext(ctx, command[0], slices.Concat(command[1:], c.arguments)...)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), c.environment...)
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building with %s: %w\n%s", command[0], err, text)
	}
	wasm, err := os.ReadFile(filepath.Join(folder, moduleFile))
	if err != nil {
		return nil, fmt.Errorf("reading the module: %w", err)
	}
	packed, err := pack(wasm)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(folder, moduleFile+".gz")
	if err := os.WriteFile(file, packed, 0o644); err != nil {
		return nil, fmt.Errorf("writing the module: %w", err)
	}
	return &Built{File: file, Language: language, Digest: module.Digest(wasm), Bytes: len(packed), UnpackedBytes: len(wasm)}, nil
}

// compiler returns the command of a compiler: the user's, or the one that is found.
func (s Streams) compiler(ctx context.Context, c compiler) ([]string, error) {
	if other := strings.Fields(s.Getenv(c.variable)); c.variable != "" && len(other) > 0 {
		return other, nil
	}
	if c.find == nil {
		return c.command, nil
	}
	found, err := c.find(ctx, s.Getenv("PATH"))
	if err != nil {
		return nil, fmt.Errorf("finding the compiler: %w", err)
	}
	return []string{found}, nil
}

// writeSDK writes the files of the SDK that a project lacks, and returns a function that removes
// them.
func writeSDK(language, folder string) (remove func(), err error) {
	var written []string
	remove = func() {
		for _, file := range written {
			_ = os.Remove(file)
		}
	}
	for name, content := range languages[language].files {
		file := filepath.Join(folder, name)
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		written = append(written, file)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			remove()
			return nil, fmt.Errorf("writing the SDK: %w", err)
		}
	}
	return remove, nil
}

// pack compresses a module as gzip -9 -n does.
func pack(wasm []byte) ([]byte, error) {
	var packed bytes.Buffer
	writer, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err == nil {
		_, err = writer.Write(wasm)
	}
	if err == nil {
		err = writer.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("compressing the module: %w", err)
	}
	return packed.Bytes(), nil
}
