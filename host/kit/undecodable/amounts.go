package undecodable

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"
)

// AmountError is the error of an answer with an amount that would take long to decode.
type AmountError struct{ cause string }

// Error implements error.
func (e *AmountError) Error() string { return "the answer is refused: " + e.cause }

// errAskForJSON is the error of an answer in Protocol Buffers that is asked for again in JSON.
var errAskForJSON = errors.New("the answer may have an amount that takes long to decode: it is asked for in JSON from now on")

// CheckAnswers returns the transports of a client of another cluster. Answers with an amount that takes long to
// decode, such as 1e-30000000, are an [AmountError]: decoding cannot be interrupted. An API server answers with no
// such amount of a built-in kind. Answers in JSON about kinds that the scheme does not have are decoded without
// amounts; without a scheme, all text that is a slow amount is refused. What Protocol Buffers contain cannot be
// known without their kind. When they may have such an amount, the client asks for JSON from then on.
//
// Events of a watch come at a bounded rate: each costs the client more than it costs the other cluster.
func CheckAnswers(types *runtime.Scheme) func(http.RoundTripper) http.RoundTripper {
	needsJSON := &atomic.Bool{}
	return func(next http.RoundTripper) http.RoundTripper {
		return &checker{next: next, types: types, needsJSON: needsJSON}
	}
}

// checker refuses answers with amounts that take long to decode. Those that are errors are looked at, too: a
// client decodes them as what they say that they are.
type checker struct {
	next      http.RoundTripper
	types     *runtime.Scheme
	needsJSON *atomic.Bool
}

// WrappedRoundTripper implements net.RoundTripperWrapper: client-go looks for the TLS
// configuration of the wrapped transport.
func (c *checker) WrappedRoundTripper() http.RoundTripper { return c.next }

// RoundTrip implements http.RoundTripper.
func (c *checker) RoundTrip(request *http.Request) (*http.Response, error) {
	if c.needsJSON.Load() {
		request = request.Clone(request.Context())
		request.Header.Set("Accept", withoutBinary(request.Header.Get("Accept")))
	}
	response, err := c.next.RoundTrip(request)
	if err != nil || response.StatusCode == http.StatusSwitchingProtocols || response.ContentLength == 0 {
		return response, err //nolint:wrapcheck // A RoundTripper's errors are those of the next one.
	}
	isStream := isWatch(request) && response.StatusCode == http.StatusOK
	body := &checkedBody{ReadCloser: response.Body, source: bufio.NewReader(response.Body)}
	switch contentType, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); {
	case contentType == runtime.ContentTypeJSON:
		body.check = func(raw []byte) error { return checkDocument(raw, c.types, isStream) }
		body.readPart = readLine
	case contentType == runtime.ContentTypeProtobuf && strings.Contains(request.Header.Get("Accept"), contentType):
		body.check, body.readPart = c.checkBinary, readFrame
	case slices.Contains(decoded, contentType):
		_ = response.Body.Close()
		return nil, &AmountError{fmt.Sprintf("it is of the type %q, which was not asked for", contentType)}
	default: // Clients decode no other.
		return response, nil
	}
	if isStream {
		pace, ctx := rate.NewLimiter(eventsPerSecond, eventsBurst), request.Context()
		body.wait = func() error { return pace.Wait(ctx) }
	} else {
		body.readPart = readAll
	}
	response.Body = body
	return response, nil
}

// decoded are the types of answers that a client decodes although it did not ask for them.
var decoded = []string{"", runtime.ContentTypeProtobuf, runtime.ContentTypeYAML, runtime.ContentTypeCBOR, runtime.ContentTypeCBORSequence}

// withoutBinary returns what a request accepts beside Protocol Buffers.
func withoutBinary(accepted string) string {
	types := slices.DeleteFunc(strings.Split(accepted, ","), func(accepted string) bool {
		return strings.HasPrefix(strings.TrimSpace(accepted), runtime.ContentTypeProtobuf)
	})
	return cmp.Or(strings.Join(types, ","), runtime.ContentTypeJSON)
}

func (c *checker) checkBinary(raw []byte) error {
	switch {
	case !mayHaveSlowAmount(raw, isTextOfProtobuf):
		return nil
	case c.needsJSON.Swap(true):
		return &AmountError{"it is in Protocol Buffers, which were not asked for, and may have an amount that takes long to decode"}
	default:
		return errAskForJSON
	}
}

func isWatch(request *http.Request) bool {
	value := request.URL.Query().Get("watch")
	return value != "" && value != "false" && value != "0"
}

const (
	// eventsBurst is how many events of a watch are read at once: more than a namespace has objects, which a
	// watch may begin with. eventsPerSecond is how many more: a burst of pods has a tenth.
	eventsBurst     = 20_000
	eventsPerSecond = 1000
)

// checkedBody is the body of an answer of which only what was checked is read: the whole, or the events
// of a watch one after the other. How much that may be is limited by the transport below.
type checkedBody struct {
	io.ReadCloser
	source   *bufio.Reader
	wait     func() error // before a part; nil without a limit
	readPart func(*bufio.Reader) ([]byte, error)
	check    func([]byte) error
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
	if b.wait != nil {
		if b.err = b.wait(); b.err != nil {
			return
		}
	}
	b.checked, b.err = b.readPart(b.source)
	if b.err != nil && !errors.Is(b.err, io.EOF) {
		b.checked = nil
		return
	}
	if err := b.check(b.checked); err != nil {
		b.checked, b.err = nil, err
	}
}

func readAll(r *bufio.Reader) ([]byte, error) {
	all, err := io.ReadAll(r)
	if err == nil {
		err = io.EOF
	}
	return all, err
}

// readLine reads an event of a watch in JSON. It is one line, as an API server sends it: the transport below limits
// lines, and a client reads on until the event ends.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	switch {
	case len(bytes.TrimSpace(line)) == 0 || json.Valid(line):
		return line, err //nolint:wrapcheck // That of the body.
	case errors.Is(err, io.EOF):
		return nil, io.ErrUnexpectedEOF
	case err != nil:
		return nil, err //nolint:wrapcheck // That of the body.
	default:
		return nil, &AmountError{"a line of it is not an event in JSON"}
	}
}

// readFrame reads an event of a watch in Protocol Buffers: its length in four bytes, and its content. It returns
// what there is of an event that ends early.
func readFrame(r *bufio.Reader) ([]byte, error) {
	var frame bytes.Buffer
	_, err := io.CopyN(&frame, r, lengthOfFrame)
	if err == nil {
		length := int64(binary.BigEndian.Uint32(frame.Bytes()))
		if length > maxFrame {
			return nil, &AmountError{fmt.Sprintf("an event has more than %d MiB", maxFrame>>20)}
		}
		_, err = io.CopyN(&frame, r, length)
	}
	return frame.Bytes(), err
}

const (
	lengthOfFrame = 4
	// maxFrame bounds an event in Protocol Buffers, in bytes. An API server stores objects of 1.5 MiB.
	maxFrame = 4 << 20
)

// checkDocument returns an [AmountError] for an object, a list, or an event of a watch. Few documents have what
// looks like a long amount: a label, say, is decoded as it is.
func checkDocument(raw []byte, types *runtime.Scheme, isEvent bool) error {
	if !mayHaveSlowAmount(raw, isValueOfJSON) {
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
	if types == nil {
		return &AmountError{"it has what may be an amount that takes long to decode"}
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
		return &AmountError{fmt.Sprintf("%s has more than %d characters, or a negative exponent of more than %d digits", path, maxSlowText, maxSlowExponent)}
	}
	return nil
}

const (
	// maxSlowText bounds the characters of an amount, and maxSlowExponent the digits of its negative exponent. An
	// API server may answer with a large positive exponent, which is not slow to decode.
	maxSlowText     = 4096
	maxSlowExponent = 2
)

// isSlow reports whether decoding an amount may take long.
func isSlow(text string) bool {
	_, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	negative, isNegative := strings.CutPrefix(exponent, "-")
	return len(text) > maxSlowText || isNegative && len(strings.TrimLeft(strings.TrimSpace(negative), "0")) > maxSlowExponent
}

// longestSuffix is the most that an amount has beside digits: signs, and a suffix.
const longestSuffix = 8

// mayHaveSlowAmount reports whether an answer has what may be an amount of which isSlow is true: a number with a long
// negative exponent, or many digits. isValue reports whether all the characters of a number between two indexes may
// be a value, and no part of one, as in the name of an image or a UID.
func mayHaveSlowAmount(raw []byte, isValue func(raw []byte, begin, end int) bool) bool {
	for at := bytes.IndexByte(raw, '-'); at >= 0; {
		next := at + 1
		if at > 1 && raw[at-1]|0x20 == 'e' && isDigit(raw[at-2]) && hasLongExponent(raw[next:]) {
			begin, end := around(raw, at, isOfNumber)
			if isValue(raw, begin, end) {
				return true
			}
			next = end
		}
		if at = bytes.IndexByte(raw[next:], '-'); at >= 0 {
			at += next
		}
	}
	const enough = maxSlowText - longestSuffix
	for at := 0; at < len(raw); at += enough / 2 { // Each such run of digits has one of these.
		if begin, end := around(raw, at, isDigit); end-begin >= enough {
			return true
		}
	}
	return false
}

func hasLongExponent(raw []byte) bool {
	digits := bytes.TrimLeft(raw[:min(len(raw), maxSlowText)], "0")
	for i := range maxSlowExponent + 1 {
		if i >= len(digits) || digits[i] < '0' || digits[i] > '9' {
			return false
		}
	}
	return true
}

// isValueOfJSON looks for what is around a value, quoted or not. Kubernetes removes spaces around an amount, some of
// which have several bytes.
func isValueOfJSON(raw []byte, begin, end int) bool {
	isBorder := func(c byte) bool { return c >= 0x80 || strings.IndexByte("\":,[]{} \t\r\n", c) >= 0 }
	return (begin == 0 || isBorder(raw[begin-1])) && (end == len(raw) || isBorder(raw[end]))
}

// isTextOfProtobuf looks for the end of a length, which is before a text: it is a byte that is not printed, or not
// more than the length. The next field may begin with a character of a number.
func isTextOfProtobuf(raw []byte, begin, end int) bool {
	if begin == 0 {
		return true
	}
	length := raw[begin-1]
	return length < ' ' || length > '~' || int(length) <= end-begin
}

// around returns the bytes around an index that are accepted.
func around(raw []byte, at int, accepts func(byte) bool) (begin, end int) {
	for begin = at; begin > 0 && accepts(raw[begin-1]); begin-- {
	}
	for end = at; end < len(raw) && accepts(raw[end]); end++ {
	}
	return begin, end
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' || c == '.' }

func isOfNumber(c byte) bool { return isDigit(c) || c == '-' || c == '+' || c|0x20 == 'e' }
