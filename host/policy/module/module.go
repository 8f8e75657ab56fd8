// Package module loads policy modules from bytes. Its errors name the problem and the role
// that must act: the policy's author or the operator.
//
// [Load] unpacks, checks the imports, meters, compiles and starts a module, and checks its
// manifest. Admission and use of a policy both call it, so an admitted module loads. The
// package knows neither Kubernetes objects nor the source of the bytes. It calls extension
// points only to warm the module up, and refuses a module whose answer is then not valid.
package module

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/longshore-dev/longshore/host/kit/jsonvalue"
	"github.com/longshore-dev/longshore/host/kit/plaintext"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/fuel"
	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// Options of [Load].
type Options struct {
	// Name of the module in messages before its manifest is known, such as that of the
	// policy or of the file.
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

// Refusal is an error of [Load] of which the module's bytes are the cause, as they are of
// errors for which [engine.AtFault] is true.
type Refusal struct {
	// Err names the problem and the role that must act.
	Err error
}

// Error implements error.
func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Err }

// AtFault reports whether the module's bytes, limits or settings are the cause of an error of
// [Load] or [Module.ValidateSettings]. The same call would fail in the same way. Causes of
// other errors are the host and the machine.
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
	metered, err := Meter(ctx, wasm)
	if err != nil {
		return nil, &Refusal{err}
	}
	compiled, err := e.Compile(ctx, options.Name, metered, options.Limits)
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

// names are the exports that the engine needs.
var names = fuel.Names{
	Fuel: engine.FuelExport, Stack: engine.StackExport, RefuelModule: engine.RefuelModule, Refuel: engine.RefuelFunction,
	Globals: engine.GlobalExports, Memory: engine.MemoryExport, Start: engine.StartExport,
}

// Meter checks an unpacked module's imports and bounds, and rewrites it for the engine. It is
// all that a process does with a module itself before a child process compiles it.
func Meter(ctx context.Context, wasm []byte) ([]byte, error) {
	parsed, err := fuel.Parse(wasm)
	if err != nil {
		return nil, fmt.Errorf("reading the module; its author must rebuild it: %w", err)
	}
	for _, i := range parsed.Imports {
		if i.Kind != fuel.KindFunction {
			return nil, fmt.Errorf("the module imports %s %s.%s; its author must build it with its own (only functions can be imported)", i.Kind, i.Module, i.Name)
		}
		if err := engine.CheckImport(i.Module, i.Name); err != nil {
			return nil, err
		}
	}
	rewritten, err := parsed.Meter(names)
	if err != nil {
		return nil, fmt.Errorf("metering the module; its author must rebuild it: %w", err)
	}
	if len(rewritten.Unrestorable) > 0 {
		return nil, fmt.Errorf("the module changes state that cannot be reset between calls (%s); its author must build it without", rewritten.Unrestorable[0])
	}
	// Metering has better messages for modules that the engine does not run, so it comes first.
	// Its result counts only if the module was valid before.
	if err := engine.Validate(ctx, parsed.Plain()); err != nil {
		return nil, err
	}
	return rewritten.Wasm, nil
}

// describe gets the module's manifest.
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

// withActor adds the role that must act to an error that the module reports. Other failures
// of a call name it already.
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
		return fmt.Errorf("the module implements contract %v and this host %v; its author must rebuild it with a matching SDK, or the operator must run a matching host", m.manifest.Contracts, contract.Versions())
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

// Call calls an export with an encoded request. Errors are [*engine.CallError].
func (m *Module) Call(ctx context.Context, export string, request []byte) ([]byte, engine.Stats, error) {
	return m.wasm.Call(ctx, export, request)
}

// ChecksSettings reports whether the module exports validate_settings, with which
// [Module.ValidateSettings] checks the settings of a policy.
func (m *Module) ChecksSettings() bool { return m.wasm.Exports(contract.ExportValidateSettings) }

// Instances returns how many instances wait for a call, and how many there are.
func (m *Module) Instances() (idle, all int) {
	pool := m.wasm.Pool()
	return pool.Idle, pool.Instances
}

// Pool counts the module's instances.
func (m *Module) Pool() engine.Pool { return m.wasm.Pool() }

// Close frees the module when the calls under way have ended.
func (m *Module) Close(ctx context.Context) error {
	if err := m.wasm.Close(ctx); err != nil {
		return fmt.Errorf("closing policy module %s: %w", m.Name(), err)
	}
	return nil
}

// SettingsError is the reason why a module refuses its settings. The operator must act.
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

// ValidateSettings returns a [*SettingsError] when the module refuses the settings of a
// binding at these points; none means all points of the module. A module without the export
// validate_settings accepts any settings.
func (m *Module) ValidateSettings(ctx context.Context, settings json.RawMessage, points ...contract.Point) error {
	if !m.ChecksSettings() {
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
		return &SettingsError{Module: m.Name(), Message: plaintext.Within(err.Error(), maxSettingsMessage)}
	}
	if err != nil {
		return fmt.Errorf("validating settings: %w", err)
	}
	var response contract.SettingsResponse
	if err := jsonvalue.DecodeStrictly(data, &response); err != nil {
		return &Refusal{fmt.Errorf("validating settings: the answer of policy module %s is not valid, its author must correct it: %w", m.Name(), err)}
	}
	switch {
	case response.Version != m.version:
		return &Refusal{fmt.Errorf("validating settings: policy module %s answers in contract %q, not %q; its author must correct it", m.Name(), response.Version, m.version)}
	case response.Valid:
		return nil
	case response.Message == "":
		return &SettingsError{Module: m.Name(), Message: "the module reports no reason, which its author should correct"}
	default:
		return &SettingsError{Module: m.Name(), Message: plaintext.Within(response.Message, maxSettingsMessage)}
	}
}

// maxSettingsMessage bounds the message of a [SettingsError], in bytes.
const maxSettingsMessage = 1 << 10

// samples returns the calls for warming the module up: one request for each of its points,
// with the facts that every request of the point has. The answers must be valid, and are not applied; a module
// may report an error, as one does whose settings are missing.
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
			samples = append(samples, engine.Sample{Export: p.Point.Export(), Input: input, Check: checkAnswer})
		}
	}
	return samples
}

// checkAnswer returns why no component would use an answer.
func checkAnswer(answer []byte) error {
	response, err := operation.DecodeResponse(answer)
	if err != nil {
		return fmt.Errorf("decoding it: %w", err)
	}
	if _, err := operation.Compile(response.Operations); err != nil {
		return fmt.Errorf("reading its operations: %w", err)
	}
	return nil
}

const (
	samplePod  = `{"metadata":{"name":"warm-up","labels":{"app":"warm-up"}},"spec":{"containers":[{"name":"warm-up","image":"warm-up:1"}]}}`
	sampleMap  = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"warm-up","labels":{"app":"warm-up"}}}`
	sampleNode = `{"name":"warm-up","providerClusterID":"warm-up","consumerClusterID":"warm-up"}`
)

// sampleFacts returns facts with everything that the contract promises, so that a policy
// that relies on it does not crash in the warm-up.
func sampleFacts(point contract.Point, moment contract.Moment) json.RawMessage {
	switch {
	case point == contract.PodMutation && moment == contract.MomentAdmission:
		return json.RawMessage(`{"object":` + samplePod + `,"offloading":{"podOffloadingStrategy":"LocalAndRemote","clusterSelector":{"nodeSelectorTerms":[]}},` +
			`"namespace":{"name":"warm-up"},"request":{"user":"warm-up"},"runtimeClassName":"liqo"}`)
	case point == contract.MetadataFilter:
		return json.RawMessage(`{"object":` + sampleMap + `,"notReflected":{},"virtualNode":` + sampleNode + `}`)
	case point == contract.ResourceMutation:
		return json.RawMessage(`{"object":` + sampleMap + `,"local":` + sampleMap + `,"virtualNode":` + sampleNode + `}`)
	case point == contract.ResourceSliceAdmission:
		return json.RawMessage(`{"object":{"metadata":{"name":"warm-up"},"spec":{"resources":{"cpu":"1"}},"status":{"resources":{"cpu":"1"}}},` +
			`"tenant":{"clusterID":"warm-up"},"namespace":{"name":"warm-up"},"defaults":{"cpu":"1"}}`)
	case point == contract.ShadowPodAdmission:
		return json.RawMessage(`{"object":` + samplePod + `,"tenant":{"clusterID":"warm-up"},"namespace":{"name":"warm-up"},"request":{"user":"warm-up"},` +
			`"quota":{"resources":{"cpu":"1"}}}`)
	case slices.Contains(point.Rules().Facts, "virtualNode"):
		return json.RawMessage(`{"object":` + samplePod + `,"local":` + samplePod + `,"virtualNode":` + sampleNode + `}`)
	default:
		return json.RawMessage(`{"object":` + samplePod + `,"local":` + samplePod + `}`)
	}
}
