// Package probes holds modules that are bad on purpose: each breaks one limit of the
// sandbox, or tries to learn what a policy must not know. What becomes of each stands
// beside it in want.txt, in the words that its author would read; a test holds the host
// to them.
//
// Most are in the text format, one folder each, with the module that make generate assembles; what the languages themselves say when
// they give up is in golang, ctrap, asabort and rspanic.
package probes

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

//go:embed */probe.wat */probe.wasm ctrap/probe.c asabort/probe.ts rspanic/probe.rs
var files embed.FS

// Probe is a module in the text format.
type Probe struct {
	// Name of its folder.
	Name string
	// About describes the probe in a sentence.
	About string
	// Wasm is the module.
	Wasm []byte
}

// LongQuestion is the size of a request, in bytes, from which on probes do what they
// are about; shorter ones they answer with nothing, so that they load.
const LongQuestion = 1024

// All reads the probes.
func All() ([]Probe, error) {
	names, err := fs.Glob(files, "*/probe.wat")
	if err != nil {
		return nil, fmt.Errorf("listing the probes: %w", err)
	}
	all := make([]Probe, 0, len(names))
	for _, name := range names {
		source, err := files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading the probes: %w", err)
		}
		wasm, err := files.ReadFile(path.Join(path.Dir(name), "probe.wasm"))
		if err != nil {
			return nil, fmt.Errorf("reading the probes: %w", err)
		}
		all = append(all, Probe{Name: path.Dir(name), About: comment(string(source)), Wasm: wasm})
	}
	return all, nil
}

// comment returns the comment at the front.
func comment(text string) string {
	about := ""
	for strings.HasPrefix(text, ";;") {
		line, after, _ := strings.Cut(text, "\n")
		about, text = about+strings.TrimPrefix(line, ";;"), after
	}
	return strings.TrimSpace(about)
}
