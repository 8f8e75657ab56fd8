// Package probes holds modules that are bad on purpose: each breaks one limit of the
// sandbox, or tries to learn what a policy must not know. What becomes of each stands
// beside it in want.txt, in the words that its author would read; a test holds the host
// to them.
//
// Most are in the text format, one folder each; what the languages themselves say when
// they give up is in golang, ctrap, asabort and rspanic.
package probes

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/longshore-dev/longshore/conformance/wat"
)

//go:embed prelude.wat */probe.wat ctrap/probe.c asabort/probe.ts rspanic/probe.rs
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

// All assembles the probes.
func All() ([]Probe, error) {
	prelude, err := files.ReadFile("prelude.wat")
	if err != nil {
		return nil, fmt.Errorf("reading the probes: %w", err)
	}
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
		text := string(source)
		about, rest := comment(text)
		if !strings.HasPrefix(rest, "(module") {
			text = string(prelude) + text
		}
		p := Probe{Name: path.Dir(name), About: about}
		if p.Wasm, err = wat.Assemble(text); err != nil {
			return nil, fmt.Errorf("probe %s: %w", p.Name, err)
		}
		all = append(all, p)
	}
	return all, nil
}

// comment cuts the comment off the front.
func comment(text string) (about, rest string) {
	for strings.HasPrefix(text, ";;") {
		line, after, _ := strings.Cut(text, "\n")
		about, text = about+strings.TrimPrefix(line, ";;"), after
	}
	return strings.TrimSpace(about), text
}
