package suite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/longshore-dev/longshore/conformance/vectors"
	"github.com/longshore-dev/longshore/host/policy/module"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// Options of [Conform] and [Run].
type Options struct {
	// Vectors are the module's own golden cases: what it must answer. See
	// [vectors.Read] for those of a folder.
	Vectors []vectors.Vector
	// CacheDir holds compiled modules between runs; empty for none.
	CacheDir string
	// Strict makes [Run] fail for advice, too.
	Strict bool
}

// Result of one check of a module.
type Result struct {
	// Check is the property that is tested, such as "deterministic".
	Check string
	// Name is what is tested: a vector, an export, a kind of invalid input.
	Name string
	// Err is the reason why the module does not conform; nil if it does.
	Err error
	// Advice is true for a check that a module may fail: the host never sends such input.
	// Modules written with the SDK pass these checks, too.
	Advice bool
}

// Conform holds a module, compressed or not, against its vectors and the probes:
//
//   - vector: each vector has its expected answer, in our host and in stock Extism.
//   - same in stock Extism: both hosts get the same bytes, and errors for the same.
//   - deterministic: the same question has the same answer again, in another order, and
//     in a fresh instance.
//   - inside its writes: what the module answers is accepted by the host: it is a
//     response of the contract, within what the manifest declares.
//   - idempotent: asked about what it made of an object, it changes nothing more.
//   - garbage is an error: invalid input is refused, and later questions are answered as
//     before. That JSON of another shape is refused is advice.
//
// Beside the module's own vectors it is asked the golden questions of the points that it
// declares. The error is that of a module which cannot be loaded, or of the context.
func Conform(ctx context.Context, raw []byte, options Options) (results []Result, err error) {
	hosts, err := newHosts(ctx, raw, options.CacheDir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, hosts.close(ctx)) }()
	questions, err := questionsOf(hosts.ours.Manifest(), options.Vectors)
	if err != nil {
		return nil, err
	}
	r := &run{hosts: hosts}
	for i := range options.Vectors {
		r.add("vector", options.Vectors[i].Name, r.vector(ctx, &options.Vectors[i]))
	}
	r.describe(ctx)
	for i := range questions {
		r.question(ctx, &questions[i])
	}
	for _, q := range slices.Backward(questions) {
		again, _ := r.hosts.ours.Call(ctx, q.point.Export(), q.input)
		if !bytes.Equal(again, q.answer) {
			r.add("deterministic", q.name+", asked after others", fmt.Errorf("answered %s, before %s", again, q.answer))
		}
	}
	for _, declared := range hosts.ours.Manifest().Points {
		r.garbage(ctx, declared.Point, questions)
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("holding the module against the suite: %w", ctx.Err())
	}
	return r.results, nil
}

// hosts hold the module three times: two that share nothing, and stock Extism.
type hosts struct {
	ours, fresh *Longshore
	stock       *Oracle
}

func newHosts(ctx context.Context, raw []byte, cache string) (*hosts, error) {
	h := &hosts{}
	wasm, err := module.Unpack(raw)
	if err == nil {
		h.ours, err = NewLongshore(ctx, raw, cache)
	}
	if err == nil {
		h.fresh, err = NewLongshore(ctx, raw, cache)
	}
	if err == nil {
		h.stock, err = NewOracle(ctx, wasm)
	}
	if err != nil {
		return nil, errors.Join(err, h.close(ctx))
	}
	return h, nil
}

func (h *hosts) close(ctx context.Context) error {
	var errs []error
	for _, host := range []*Longshore{h.ours, h.fresh} {
		if host != nil {
			errs = append(errs, host.Close(ctx))
		}
	}
	if h.stock != nil {
		errs = append(errs, h.stock.Close(ctx))
	}
	return errors.Join(errs...)
}

// question is asked of a module.
type question struct {
	name   string
	point  contract.Point
	source contract.Request
	object json.RawMessage
	input  []byte
	// answer of the first call, nil when the module failed.
	answer []byte
}

// questionsOf returns the vectors' questions and the golden ones, as far as the module
// answers their points.
func questionsOf(manifest *contract.Manifest, own []vectors.Vector) ([]question, error) {
	golden, err := vectors.All()
	if err != nil {
		return nil, fmt.Errorf("reading the golden vectors: %w", err)
	}
	var questions []question
	for i, v := range slices.Concat(own, golden) {
		var q question
		if err := json.Unmarshal(v.Request, &q.source); err != nil {
			return nil, fmt.Errorf("decoding the request of vector %s: %w", v.Name, err)
		}
		declared := manifest.For(q.source.Point)
		if declared == nil {
			continue
		}
		if i >= len(own) {
			// The settings are those of another module.
			q.source.Settings = nil
		}
		if !declared.At(q.source.Moment) {
			q.source.Moment = declared.Moments[0]
		}
		q.name, q.point, q.object = v.Name, q.source.Point, v.Object
		if q.input, err = json.Marshal(q.source); err != nil {
			return nil, fmt.Errorf("encoding the question of vector %s: %w", v.Name, err)
		}
		questions = append(questions, q)
	}
	return questions, nil
}

// run collects results.
type run struct {
	hosts   *hosts
	results []Result
}

func (r *run) add(check, name string, err error) {
	r.results = append(r.results, Result{Check: check, Name: name, Err: err})
}

func (r *run) vector(ctx context.Context, v *vectors.Vector) error {
	for _, host := range []Host{r.hosts.ours, r.hosts.stock} {
		if err := Check(ctx, host, v); err != nil {
			return err
		}
	}
	return CheckResult(v)
}

// describe holds the manifest to what is asked of every answer.
func (r *run) describe(ctx context.Context) {
	first, err := r.hosts.ours.Call(ctx, contract.ExportDescribe, nil)
	again, againErr := r.hosts.fresh.Call(ctx, contract.ExportDescribe, nil)
	if err = errors.Join(err, againErr); err == nil && !bytes.Equal(first, again) {
		err = fmt.Errorf("described itself as %s, then as %s", first, again)
	}
	r.add("deterministic", contract.ExportDescribe, err)
	stock, err := r.hosts.stock.Call(ctx, contract.ExportDescribe, nil)
	if err == nil && !bytes.Equal(first, stock) {
		err = fmt.Errorf("described itself as %s, in stock Extism as %s", first, stock)
	}
	r.add("same in stock Extism", contract.ExportDescribe, err)
}

func (r *run) question(ctx context.Context, q *question) {
	export := q.point.Export()
	answer, err := r.hosts.ours.Call(ctx, export, q.input)
	q.answer = answer
	stock, stockErr := r.hosts.stock.Call(ctx, export, q.input)
	r.add("same in stock Extism", q.name, differ(answer, err, stock, stockErr))

	var deviation error
	for _, host := range []Host{r.hosts.ours, r.hosts.fresh, r.hosts.ours} {
		again, againErr := host.Call(ctx, export, q.input)
		if deviation == nil {
			deviation = differ(answer, err, again, againErr)
		}
	}
	r.add("deterministic", q.name, deviation)
	if err != nil {
		return // a policy may refuse to answer; its vectors hold the questions that it must answer
	}
	once, twice, err := r.applied(ctx, q)
	r.add("inside its writes", q.name, err)
	if err == nil {
		r.add("idempotent", q.name, sameObject(once, twice))
	}
}

// differ compares two answers to one question.
func differ(first []byte, firstErr error, second []byte, secondErr error) error {
	switch {
	case firstErr != nil && secondErr != nil:
		return nil
	case firstErr != nil || secondErr != nil:
		return fmt.Errorf("answered %q with error %v, then %q with error %v", first, firstErr, second, secondErr) //nolint:errorlint // One of the two is nil.
	case !bytes.Equal(first, second):
		return fmt.Errorf("answered %s, then %s", first, second)
	default:
		return nil
	}
}

// garbage sends invalid input.
func (r *run) garbage(ctx context.Context, point contract.Point, questions []question) {
	at := slices.IndexFunc(questions, func(q question) bool { return q.point == point && q.answer != nil })
	broken, misshapen := garbage(point)
	for name, input := range broken {
		r.refuses(ctx, point, name, input, questions, at)
	}
	for name, input := range misshapen {
		r.refuses(ctx, point, name, input, questions, at)
		r.results[len(r.results)-1].Advice = true
	}
}

// refuses sends invalid input, and then a valid question.
func (r *run) refuses(ctx context.Context, point contract.Point, name string, input []byte, questions []question, at int) {
	output, err := r.hosts.ours.Call(ctx, point.Export(), input)
	var problem error
	if err == nil {
		problem = fmt.Errorf("%s answered %s: it must refuse what it does not understand", point.Export(), output)
	} else if at >= 0 {
		after, afterErr := r.hosts.ours.Call(ctx, point.Export(), questions[at].input)
		problem = differ(questions[at].answer, nil, after, afterErr)
	}
	r.add("garbage is an error", string(point)+", "+name, problem)
}

// garbage is what is no JSON, and JSON of another shape than the contract's.
func garbage(point contract.Point) (broken, misshapen map[string][]byte) {
	head := `{"version":"` + contract.Version + `","point":"` + string(point) + `","facts":`
	broken = map[string][]byte{
		"nothing":              nil,
		"text":                 []byte("hello"),
		"a question cut short": []byte(head + `{"object":{"meta`),
		"a question and more":  []byte(head + `{}}{}`),
		"nesting without end":  []byte(head + strings.Repeat(`{"object":`, 50_000)),
	}
	misshapen = map[string][]byte{
		"null":                       []byte("null"),
		"a list":                     []byte("[]"),
		"a contract of the future":   []byte(strings.Replace(head, contract.Version, "v99", 1) + `{}}`),
		"no version":                 []byte(`{"point":"` + string(point) + `","facts":{}}`),
		"facts that are no object":   []byte(head + `[1,2]}`),
		"an object that is a number": []byte(head + `{"object":7}}`),
		"bytes that are no text":     []byte(head + "{\"object\":{\"kind\":\"\xff\xfe\"}}}"),
	}
	return broken, misshapen
}
