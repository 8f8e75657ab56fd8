package undecodable

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strings"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	kjson "sigs.k8s.io/json"
)

// reportInterval is how often refused answers are reported.
const reportInterval = time.Minute

// AmountError is the error of an answer with an amount that would take long to decode.
type AmountError struct{ cause string }

// Error implements error.
func (e *AmountError) Error() string { return "the answer is refused: " + e.cause }

// RefuseAmounts returns a copy of a configuration for a client of another cluster. Answers in JSON with an amount
// that takes long to decode, such as 1e-30000000, are an [AmountError]: decoding cannot be interrupted. They are
// reported once a minute at most. An API server answers with no such amount of a built-in kind. Answers about kinds
// that the scheme does not have are decoded without amounts. Those in Protocol Buffers are not looked at.
func RefuseAmounts(config *rest.Config, types *runtime.Scheme, report func(context.Context, error)) *rest.Config {
	sometimes := &rate.Sometimes{Interval: reportInterval}
	reportSometimes := func(ctx context.Context, err error) { sometimes.Do(func() { report(ctx, err) }) }
	checked := rest.CopyConfig(config)
	checked.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &checker{next: next, types: types, report: reportSometimes}
	})
	return checked
}

// checker refuses answers with amounts that take long to decode.
type checker struct {
	next   http.RoundTripper
	types  *runtime.Scheme
	report func(context.Context, error)
}

// WrappedRoundTripper implements net.RoundTripperWrapper: client-go looks for the TLS
// configuration of the wrapped transport.
func (c *checker) WrappedRoundTripper() http.RoundTripper { return c.next }

// RoundTrip implements http.RoundTripper.
func (c *checker) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := c.next.RoundTrip(request)
	if err != nil || response.StatusCode/100 != 2 {
		return response, err //nolint:wrapcheck // A RoundTripper's errors are those of the next one.
	}
	if contentType, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); contentType == runtime.ContentTypeJSON {
		response.Body = &checkedBody{
			ReadCloser: response.Body, source: bufio.NewReader(response.Body), isWatch: isWatch(request),
			check: func(raw []byte) error {
				err := checkDocument(raw, c.types, isWatch(request))
				if err != nil {
					c.report(request.Context(), err)
				}
				return err
			},
		}
	}
	return response, nil
}

func isWatch(request *http.Request) bool {
	value := request.URL.Query().Get("watch")
	return value != "" && value != "false" && value != "0"
}

// checkedBody is the body of an answer in JSON, of which only what was checked is read: the whole, or the events
// of a watch one after the other. How much that may be is limited by the transport below.
type checkedBody struct {
	io.ReadCloser
	source  *bufio.Reader
	isWatch bool
	check   func([]byte) error
	// checked is what can be read, before err.
	checked []byte
	err     error
}

// Read implements io.Reader.
func (b *checkedBody) Read(p []byte) (int, error) {
	for len(b.checked) == 0 {
		if b.err != nil {
			return 0, b.err
		}
		b.next()
	}
	n := copy(p, b.checked)
	b.checked = b.checked[n:]
	return n, nil
}

func (b *checkedBody) next() {
	if b.isWatch {
		b.checked, b.err = b.source.ReadBytes('\n')
	} else if b.checked, b.err = io.ReadAll(b.source); b.err == nil {
		b.err = io.EOF
	}
	if b.err != nil && !errors.Is(b.err, io.EOF) {
		b.checked = nil
		return
	}
	if err := b.check(b.checked); err != nil {
		b.checked, b.err = nil, err
	}
}

// checkDocument returns an [AmountError] for an object, a list, or an event of a watch. Few documents have what
// looks like a long amount: a label, say, is decoded as it is.
func checkDocument(raw []byte, types *runtime.Scheme, isEvent bool) error {
	if !mayHaveSlowAmount(raw) {
		return nil
	}
	// Of members with the same name, a decoder decodes each, and others see the last.
	var whole any
	if repeated, err := kjson.UnmarshalStrict(raw, &whole, kjson.DisallowDuplicateFields); err != nil || len(repeated) > 0 {
		return &AmountError{fmt.Sprintf("it has what may be a long amount, and is no valid JSON: %v", errors.Join(append(repeated, err)...))}
	}
	if isEvent {
		var event struct {
			Object json.RawMessage `json:"object"`
		}
		if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &event); err != nil {
			return &AmountError{err.Error()}
		}
		raw = event.Object
	}
	var of runtime.TypeMeta
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &of); err != nil {
		return &AmountError{err.Error()}
	}
	kind := of.GroupVersionKind()
	if kind.Kind == "" || kind.Version == "" {
		return &AmountError{"it has what may be a long amount, and does not say of which kind it is"}
	}
	object, err := types.New(kind)
	if err != nil {
		return nil // Clients of the scheme decode no such kind.
	}
	path, isRefused, err := findAmount(raw, reflect.TypeOf(object), isSlow)
	switch {
	case err != nil:
		return &AmountError{err.Error()}
	case isRefused:
		return &AmountError{fmt.Sprintf("%s has more than %d characters, or an exponent under -%d", path, maxSlowText, slowExponent)}
	}
	return nil
}

const (
	// maxSlowText and maxSlowExponent bound amounts that an API server may answer with: a large exponent is not
	// among what is slow to decode.
	maxSlowText     = 4096
	maxSlowExponent = 2
	slowExponent    = 99
)

// isSlow reports whether decoding an amount may take long.
func isSlow(text string) bool {
	_, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	negative, isNegative := strings.CutPrefix(exponent, "-")
	return len(text) > maxSlowText || isNegative && len(strings.TrimLeft(strings.TrimSpace(negative), "0")) > maxSlowExponent
}

// borders are the bytes before and behind a value. Kubernetes removes spaces around an amount, some of which have
// several bytes.
var borders = func() (table [256]bool) {
	for c := range table {
		table[c] = c >= 0x80 || strings.IndexByte("\":,[]{} \t\r\n", byte(c)) >= 0
	}
	return table
}()

// mayHaveSlowAmount reports whether JSON has a value, quoted or not, of which isSlow may be true: it is only a
// number with a long negative exponent, or begins with a long one.
func mayHaveSlowAmount(raw []byte) bool {
	n, before := noNumber, byte(0)
	for _, c := range raw {
		switch {
		case c >= '0' && c <= '9' || c == '.':
			if n.digit(c); n.length > maxSlowText-longestSuffix {
				return true
			}
		case c == '-' || c == '+':
			n.sign(c, before)
		case c|0x20 == 'e':
			n.beginExponent()
		default:
			if borders[c] && n.hasSlowExponent() {
				return true
			}
			n = noNumber
			if borders[c] {
				n.length = 0
			}
		}
		before = c
	}
	return n.hasSlowExponent()
}

const none = -1

// noNumber is what can be no number any more.
var noNumber = number{length: none, exponent: none}

// longestSuffix is the most that an amount has beside digits: signs, and a suffix.
const longestSuffix = 8

// number is what was read of a value: its length, and that of its exponent without zeros at the beginning, which
// is none before it begins.
type number struct {
	length, exponent int
	isNegative       bool // Its exponent is.
}

func (n *number) digit(c byte) {
	if n.length == none {
		return
	}
	n.length++
	if n.exponent > 0 || n.exponent == 0 && c != '0' {
		n.exponent++
	}
}

// sign reads a sign, which can only be first in a number or in its exponent.
func (n *number) sign(c, before byte) {
	switch {
	case n.length <= 0:
	case n.exponent == none || before|0x20 != 'e':
		*n = noNumber
	default:
		n.isNegative = c == '-'
	}
}

func (n *number) beginExponent() {
	if n.length <= 0 || n.exponent != none {
		*n = noNumber
		return
	}
	n.exponent = 0
}

func (n *number) hasSlowExponent() bool {
	return n.length > 0 && n.isNegative && n.exponent > maxSlowExponent
}
