package policy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/fuel"
	"github.com/longshore-dev/longshore/host/policy/module"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// configMapBytes is the size limit of a ConfigMap.
const configMapBytes = 1 << 20

// Inspection describes a module. Fields that could not be determined because the module was
// refused are empty.
type Inspection struct {
	// Source is the file.
	Source string `json:"source"`
	// Name and Version are the module's own, from its manifest.
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
	// Digest of the unpacked module.
	Digest string `json:"digest,omitempty"`
	// Bytes of the file, UnpackedBytes of the module in it.
	Bytes         int `json:"bytes"`
	UnpackedBytes int `json:"unpackedBytes,omitempty"`
	// Contracts are the contract versions that the module speaks.
	Contracts []string `json:"contracts,omitempty"`
	// Points that the module answers, with what it reads and writes there.
	Points []contract.PointManifest `json:"points,omitempty"`
	// ChecksSettings is true for a module that checks its settings when they are written.
	ChecksSettings bool `json:"checksSettings"`
	// Imports of the module, "module.name".
	Imports []string `json:"imports,omitempty"`
	// Describe is the usage of the call that returns the manifest.
	Describe *Usage `json:"describe,omitempty"`
	// Accepted is true if a cluster with this version of Longshore loads the module.
	Accepted bool `json:"accepted"`
	// Verdict is a sentence with the outcome, or with what must be done and by which role.
	Verdict string `json:"verdict"`
	// Stderr is what the module wrote before it was refused.
	Stderr string `json:"stderr,omitempty"`
	// Notes are for the module's author and the operator.
	Notes []string `json:"notes,omitempty"`
}

// Usage is the fuel and memory of a call, and their limits.
type Usage struct {
	Fuel             uint64 `json:"fuel"`
	FuelLimit        uint64 `json:"fuelLimit"`
	MemoryBytes      uint64 `json:"memoryBytes"`
	MemoryLimitBytes uint64 `json:"memoryLimitBytes"`
}

// Inspect loads the module as a cluster does; see [Streams] about the compiler. The error is never
// a fault of the module.
func Inspect(ctx context.Context, compile engine.Compiler, source string, raw []byte) (*Inspection, error) {
	report := &Inspection{Source: source, Bytes: len(raw)}
	report.read(raw)
	runtime, err := engine.New(ctx, engine.Options{Compiler: compile})
	if err != nil {
		return nil, fmt.Errorf("starting the policy engine: %w", err)
	}
	loaded, err := module.Load(ctx, runtime, raw, module.Options{Name: source})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, errors.Join(fmt.Errorf("inspecting %s: %w", source, ctx.Err()), runtime.Close(ctx))
	case err != nil && !module.AtFault(err):
		return nil, errors.Join(err, runtime.Close(ctx))
	case err != nil:
		report.refuse(err)
	default:
		report.describe(ctx, loaded)
	}
	if err := runtime.Close(ctx); err != nil {
		return nil, fmt.Errorf("closing the policy engine: %w", err)
	}
	return report, nil
}

// read fills in what is known without running the module.
func (r *Inspection) read(raw []byte) {
	if r.Bytes > configMapBytes {
		r.Notes = append(r.Notes, fmt.Sprintf("the file has %s and a ConfigMap holds 1 MiB: compress it with gzip or zstd, leave out what it does not need, or store it in parts", size(r.Bytes)))
	}
	wasm, err := module.Unpack(raw)
	if err != nil {
		return // the verdict has the reason
	}
	r.UnpackedBytes, r.Digest = len(wasm), module.Digest(wasm)
	parsed, err := fuel.Parse(wasm)
	if err != nil {
		return // the verdict has the reason
	}
	for _, i := range parsed.Imports {
		r.Imports = append(r.Imports, i.Module+"."+i.Name)
	}
	slices.Sort(r.Imports)
	for i := range parsed.Exports {
		r.ChecksSettings = r.ChecksSettings || parsed.Exports[i].Name == contract.ExportValidateSettings
	}
}

func (r *Inspection) refuse(err error) {
	r.Verdict = err.Error()
	if call, ok := errors.AsType[*engine.CallError](err); ok {
		r.Stderr = call.Stderr
	}
}

func (r *Inspection) describe(ctx context.Context, loaded *module.Module) {
	manifest := loaded.Manifest()
	r.Name, r.Version, r.Contracts, r.Points = manifest.Name, manifest.Version, manifest.Contracts, manifest.Points
	_, stats, err := loaded.Call(ctx, contract.ExportDescribe, nil)
	if err != nil {
		r.refuse(err)
		return
	}
	r.Describe = usage(stats, contract.DefaultFuel)
	r.Accepted = true
	r.Verdict = "a cluster with this version of Longshore loads this module"
}

func usage(stats engine.Stats, fuelLimit uint64) *Usage {
	return &Usage{
		Fuel: stats.Ticks, FuelLimit: fuelLimit,
		MemoryBytes: stats.MemoryBytes, MemoryLimitBytes: contract.DefaultMemoryBytes,
	}
}

func (u *Usage) String() string {
	return fmt.Sprintf("%d of %d ticks of fuel, %s of %s of memory",
		u.Fuel, u.FuelLimit, size(int(u.MemoryBytes)), size(int(u.MemoryLimitBytes)))
}

func (r *Inspection) text(w io.Writer, style output.Style) error {
	p := &printer{w: w, style: style}
	p.field("Name", r.Name)
	p.field("Version", r.Version)
	p.field("Source", r.Source)
	p.field("Digest", r.Digest)
	sizes := size(r.Bytes)
	if r.UnpackedBytes > r.Bytes {
		sizes += ", " + size(r.UnpackedBytes) + " unpacked"
	}
	p.field("Size", sizes)
	p.field("Contracts", strings.Join(r.Contracts, ", "))
	if r.Accepted {
		p.field("Settings", map[bool]string{true: "checked by the module when they are written", false: "not checked by the module"}[r.ChecksSettings])
		p.field("Describe", "took "+r.Describe.String())
	}
	p.field("Imports", r.importText())
	for i := range r.Points {
		p.point(&r.Points[i])
	}
	for _, note := range r.Notes {
		p.field("Note", note)
	}
	if r.Stderr != "" {
		p.section("What the module wrote")
		p.indented(r.Stderr)
	}
	if r.Accepted {
		p.line("%s %s", style.Good("Accepted:"), r.Verdict)
	} else {
		p.line("%s %s", style.Bad("Refused:"), r.Verdict)
	}
	return p.err
}

// importText lists the imports. Functions of WASI are only counted: they are the same for
// every module of a toolchain, and the host's stubs do nothing.
func (r *Inspection) importText() string {
	var names []string
	wasi := 0
	for _, name := range r.Imports {
		if strings.HasPrefix(name, "wasi_snapshot_preview1.") {
			wasi++
			continue
		}
		names = append(names, name)
	}
	if wasi > 0 {
		names = append(names, fmt.Sprintf("%d functions of WASI", wasi))
	}
	return strings.Join(names, ", ")
}

func (p *printer) point(point *contract.PointManifest) {
	title := string(point.Point)
	if len(point.Moments) > 0 {
		moments := make([]string, len(point.Moments))
		for i, m := range point.Moments {
			moments[i] = string(m)
		}
		title += " at " + strings.Join(moments, ", ")
	}
	p.section(title)
	for _, path := range point.Reads {
		p.line("  reads   %s", path)
	}
	for _, path := range point.SettingsReads {
		p.line("  reads   %s (only with settings)", path)
	}
	for i := range point.Writes {
		p.line("  writes  %s", writeText(&point.Writes[i]))
	}
	if len(point.Writes) == 0 {
		p.line("  writes  nothing")
	}
}

// writeText formats a rule: its path, its verbs, and its keys if they are restricted.
func writeText(rule *contract.WriteRule) string {
	verbs := make([]string, len(rule.Verbs))
	for i, verb := range rule.Verbs {
		verbs[i] = string(verb)
	}
	text := fmt.Sprintf("%s (%s)", rule.Path, strings.Join(verbs, ", "))
	if len(rule.Keys) > 0 {
		text += " keys " + strings.Join(rule.Keys, ", ")
	}
	return text
}
