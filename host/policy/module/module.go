// Package module turns the bytes of a policy module into one that can be asked, or
// into an error that says what is wrong and who must act: the policy's author, or the
// operator who wants to run it.
//
// The way is always the same: unpack, digest, check the imports, meter, compile,
// start, ask for the manifest and check it. Admission of a policy and its use go
// through this one function, so what was admitted loads. The package knows neither
// Kubernetes objects nor where the bytes come from, and never asks the module a
// question of an extension point on its own behalf except to warm it up.
package module

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/fuel"
	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// Options of [Load].
type Options struct {
	// Name of the module in messages, before its manifest is known: that of the policy
	// or of the file.
	Name string
	// Limits of its calls; zero fields mean the contract's defaults.
	Limits engine.Limits
}

// Module is a loaded policy module. It is immutable and safe for concurrent use.
type Module struct {
	digest   string
	version  string
	manifest *contract.Manifest
	wasm     *engine.Module
}

// Refusal is an error of [Load] that is due to the module's bytes. So are the errors of
// which [engine.AtFault] is true.
type Refusal struct {
	// Err says what is wrong with the module, and who must act.
	Err error
}

// Error implements error.
func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Err }

// AtFault tells whether an error of [Load] or [Module.ValidateSettings] is due to what
// was given to it, the module's bytes, limits and settings: tried again, it would be the
// same. All others are ours or the machine's.
func AtFault(err error) bool {
	_, refused := errors.AsType[*Refusal](err)
	_, settings := errors.AsType[*SettingsError](err)
	return refused || settings || engine.AtFault(err)
}

// Load checks, compiles and starts a module: raw wasm, or compressed with gzip or
// zstd. The caller closes it.
func Load(ctx context.Context, e *engine.Engine, raw []byte, options Options) (*Module, error) {
	m, err := load(ctx, e, raw, options)
	if err != nil {
		return nil, fmt.Errorf("loading policy module %s: %w", options.Name, err)
	}
	return m, nil
}

func load(ctx context.Context, e *engine.Engine, raw []byte, options Options) (*Module, error) {
	wasm, err := Unpack(raw)
	if err != nil {
		return nil, &Refusal{err}
	}
	metered, heaviest, err := meter(ctx, wasm)
	if err != nil {
		return nil, &Refusal{err}
	}
	compiled, err := e.Compile(ctx, options.Name, metered, options.Limits)
	if errors.Is(err, engine.ErrBudget) {
		return nil, fmt.Errorf("%w (the heaviest is %s)", err, heaviest)
	}
	if err != nil {
		return nil, err
	}
	m := &Module{digest: Digest(wasm), wasm: compiled}
	if err := m.describe(ctx); err != nil {
		return nil, errors.Join(err, compiled.Close(ctx))
	}
	if err := compiled.Warm(ctx, m.samples()...); err != nil {
		return nil, errors.Join(fmt.Errorf("warming up: %w", err), compiled.Close(ctx))
	}
	return m, nil
}

// Digest returns the digest of an unpacked module, "sha256:" and hexadecimal.
func Digest(wasm []byte) string {
	sum := sha256.Sum256(wasm)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// names are the exports that the engine wants.
var names = fuel.Names{
	Fuel: engine.FuelExport, Stack: engine.StackExport, RefuelModule: engine.RefuelModule, Refuel: engine.RefuelFunction,
	Globals: engine.GlobalExports, Memory: engine.MemoryExport, Start: engine.StartExport,
}

// meter checks what a module asks for and rewrites it. heaviest describes the function that
// is likely to take longest to compile.
func meter(ctx context.Context, wasm []byte) (metered []byte, heaviest string, err error) {
	parsed, err := fuel.Parse(wasm)
	if err != nil {
		return nil, "", fmt.Errorf("reading the module; its author must rebuild it: %w", err)
	}
	for _, i := range parsed.Imports {
		if i.Kind != fuel.KindFunction {
			return nil, "", fmt.Errorf("the module imports %s %s.%s; its author must build it with its own (only functions can be imported)", i.Kind, i.Module, i.Name)
		}
		if err := engine.CheckImport(i.Module, i.Name); err != nil {
			return nil, "", err
		}
	}
	heaviest, err = parsed.CheckBounds()
	if err != nil {
		return nil, "", fmt.Errorf("the module is out of proportion for a compiler; its author must change it: %w", err)
	}
	rewritten, err := parsed.Meter(names)
	if err != nil {
		return nil, "", fmt.Errorf("metering the module; its author must rebuild it: %w", err)
	}
	if len(rewritten.Unrestorable) > 0 {
		return nil, "", fmt.Errorf("the module changes what cannot be set back between calls (%s); its author must build it without", rewritten.Unrestorable[0])
	}
	// Metering has the better words for what the engine does not run, so it comes first. Its
	// result counts only if the module was valid before.
	if err := engine.Validate(ctx, wasm); err != nil {
		return nil, "", err
	}
	return rewritten.Wasm, heaviest, nil
}

// describe asks the module for its manifest.
func (m *Module) describe(ctx context.Context) error {
	if !m.wasm.Exports(contract.ExportDescribe) {
		return &Refusal{fmt.Errorf("the module does not export %s; its author must build it as a library that does (standard Go: -buildmode=c-shared, and the SDK's package describe)", contract.ExportDescribe)}
	}
	data, _, err := m.wasm.Call(ctx, contract.ExportDescribe, nil)
	if err != nil {
		return withActor(err)
	}
	if err := m.declare(data); err != nil {
		return &Refusal{err}
	}
	return nil
}

// withActor says who must act on what a module reports by itself, as the other failures
// of a call do: no object was asked about that could be the reason.
func withActor(err error) error {
	if errors.Is(err, engine.Guest) {
		return fmt.Errorf("%w; its author must correct it", err)
	}
	return err
}

// declare reads and checks the manifest.
func (m *Module) declare(data []byte) (err error) {
	if m.manifest, err = parseManifest(data); err != nil {
		return fmt.Errorf("the manifest that describe returns is not valid; the module's author must correct it: %w", err)
	}
	version, ok := contract.Negotiate(contract.Versions(), m.manifest.Contracts)
	if !ok {
		return fmt.Errorf("the module speaks contract %v and this host %v; its author must rebuild it with a matching SDK, or the operator must run a matching host", m.manifest.Contracts, contract.Versions())
	}
	m.version = version
	if m.wasm.HasExport(contract.ExportValidateSettings) && !m.wasm.Exports(contract.ExportValidateSettings) {
		return fmt.Errorf("the module exports %s, but not as a function without parameters that returns nothing or an i32; its author must correct the signature or drop the export", contract.ExportValidateSettings)
	}
	for _, p := range m.manifest.Points {
		if export := p.Point.Export(); !m.wasm.Exports(export) {
			return fmt.Errorf("the manifest declares %s, but the module does not export %s without parameters; its author must add the export or drop the point", p.Point, export)
		}
	}
	return nil
}

// Name returns the name in the manifest.
func (m *Module) Name() string { return m.manifest.Name }

// Digest identifies the unpacked module: "sha256:" and 64 hexadecimal digits.
func (m *Module) Digest() string { return m.digest }

// Manifest returns what the module declares. The caller must not change it.
func (m *Module) Manifest() *contract.Manifest { return m.manifest }

// Call asks an export with an encoded request. Errors are [*engine.CallError].
func (m *Module) Call(ctx context.Context, export string, request []byte) ([]byte, engine.Stats, error) {
	return m.wasm.Call(ctx, export, request)
}

// Instances returns how many instances wait for a call, and how many there are.
func (m *Module) Instances() (idle, all int) {
	pool := m.wasm.Pool()
	return pool.Idle, pool.Instances
}

// Pool tells more of the module's instances.
func (m *Module) Pool() engine.Pool { return m.wasm.Pool() }

// Close frees the module when the calls under way have ended.
func (m *Module) Close(ctx context.Context) error {
	if err := m.wasm.Close(ctx); err != nil {
		return fmt.Errorf("closing policy module %s: %w", m.Name(), err)
	}
	return nil
}

// SettingsError is what a module has against its settings. The operator who wrote
// them must act.
type SettingsError struct {
	// Module that refuses the settings.
	Module string
	// Message of the module.
	Message string
}

// Error implements error.
func (e *SettingsError) Error() string {
	return fmt.Sprintf("policy module %s refuses its settings, the operator must correct them: %s", e.Module, e.Message)
}

// ValidateSettings asks the module whether it can work with the settings of a binding
// at these points; none means all that it answers.
// A module without the export validate_settings accepts any. It returns a
// [*SettingsError] when the module refuses them.
func (m *Module) ValidateSettings(ctx context.Context, settings json.RawMessage, points ...contract.Point) error {
	if !m.wasm.Exports(contract.ExportValidateSettings) {
		return nil
	}
	if err := operation.CheckSettings(settings); err != nil {
		return &SettingsError{Module: m.Name(), Message: err.Error()}
	}
	if len(settings) == 0 {
		settings = json.RawMessage("null")
	}
	request, err := json.Marshal(contract.SettingsRequest{Version: m.version, Points: points, Settings: settings})
	if err != nil {
		return &SettingsError{Module: m.Name(), Message: "they are not JSON: " + err.Error()}
	}
	data, _, err := m.wasm.Call(ctx, contract.ExportValidateSettings, request)
	if errors.Is(err, engine.Guest) { // it reports what is wrong instead of answering it
		return &SettingsError{Module: m.Name(), Message: engine.PlainWithin(err.Error(), maxSettingsMessage)}
	}
	if err != nil {
		return fmt.Errorf("validating settings: %w", err)
	}
	var response contract.SettingsResponse
	if err := decodeStrictly(data, &response); err != nil {
		return &Refusal{fmt.Errorf("validating settings: the answer of policy module %s is not valid, its author must correct it: %w", m.Name(), err)}
	}
	switch {
	case response.Version != m.version:
		return &Refusal{fmt.Errorf("validating settings: policy module %s answers in contract %q, not %q; its author must correct it", m.Name(), response.Version, m.version)}
	case response.Valid:
		return nil
	case response.Message == "":
		return &SettingsError{Module: m.Name(), Message: "it does not say why, which its author should correct"}
	default:
		return &SettingsError{Module: m.Name(), Message: engine.PlainWithin(response.Message, maxSettingsMessage)}
	}
}

// maxSettingsMessage bounds what a module has against its settings, in bytes.
const maxSettingsMessage = 1 << 10

// samples are the calls that a module is warmed up with: one question of each point
// that it answers, with the facts that every question of the point has. The answers are not
// looked at.
func (m *Module) samples() []engine.Sample {
	samples := []engine.Sample{{Export: contract.ExportDescribe}}
	for _, p := range m.manifest.Points {
		request := contract.Request{Version: m.version, Point: p.Point}
		if p.Point == contract.PodMutation {
			request.Moment = contract.MomentAdmission
			if len(p.Moments) > 0 && !slices.Contains(p.Moments, request.Moment) {
				request.Moment = p.Moments[0]
			}
		}
		request.Facts = sampleFacts(p.Point, request.Moment)
		if input, err := json.Marshal(request); err == nil {
			samples = append(samples, engine.Sample{Export: p.Point.Export(), Input: input})
		}
	}
	return samples
}

const (
	samplePod  = `{"metadata":{"name":"warm-up","labels":{"app":"warm-up"}},"spec":{"containers":[{"name":"warm-up","image":"warm-up:1"}]}}`
	sampleMap  = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"warm-up","labels":{"app":"warm-up"}}}`
	sampleNode = `{"name":"warm-up","providerClusterID":"warm-up","consumerClusterID":"warm-up"}`
)

// sampleFacts returns the facts of a question in which nothing is missing that the contract
// promises: a policy that relies on them must not crash while it is warmed up.
func sampleFacts(point contract.Point, moment contract.Moment) json.RawMessage {
	switch {
	case point == contract.PodMutation && moment == contract.MomentAdmission:
		return json.RawMessage(`{"object":` + samplePod + `,"offloading":{"podOffloadingStrategy":"LocalAndRemote","clusterSelector":{"nodeSelectorTerms":[]}},` +
			`"namespace":{"name":"warm-up"},"request":{"user":"warm-up"},"runtimeClassName":"liqo"}`)
	case point == contract.AntiAffinityPreset:
		return json.RawMessage(`{"object":` + samplePod + `,"local":` + samplePod + `}`)
	case point == contract.MetadataFilter:
		return json.RawMessage(`{"object":` + sampleMap + `,"notReflected":{},"virtualNode":` + sampleNode + `}`)
	case point == contract.ResourceMutation:
		return json.RawMessage(`{"object":` + sampleMap + `,"local":` + sampleMap + `,"virtualNode":` + sampleNode + `}`)
	default:
		return json.RawMessage(`{"object":` + samplePod + `,"local":` + samplePod + `,"virtualNode":` + sampleNode + `}`)
	}
}
