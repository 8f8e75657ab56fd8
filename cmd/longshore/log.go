package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	uberzap "go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// maxText is how much of a message, an error or a value is logged, in bytes. Another cluster, whose errors are
// logged, could fill the disk of the node.
const maxText = 4 << 10

// Another cluster also decides how often something is logged. Of each message and level that is logged without -v,
// a minute has maxLines lines, and then one of each oneOf. One more line says what was left out.
const (
	maxLines = 200
	oneOf    = 1000
)

// newLogger returns a logger for text or JSON.
func newLogger(to io.Writer, text bool, verbosity int) logr.Logger {
	return newLoggerWith(to, text, verbosity, func(wait time.Duration, do func()) { time.AfterFunc(wait, do) })
}

// newLoggerWith is newLogger with the function that calls another one after a time.
func newLoggerWith(to io.Writer, text bool, verbosity int, after func(time.Duration, func())) logr.Logger {
	level := zapcore.Level(-verbosity)
	return zap.New(zap.WriteTo(to), zap.UseDevMode(text),
		// Below this level, controller-runtime adds a sampler of its own, which counts nothing.
		zap.Level(uberzap.NewAtomicLevelAt(min(level, -2))),
		// Errors are wrapped with what was being done; where in the code is for bugs.
		zap.StacktraceLevel(zapcore.DPanicLevel),
		zap.RawZapOpts(uberzap.IncreaseLevel(level), uberzap.WrapCore(func(core zapcore.Core) zapcore.Core {
			if verbosity == 0 {
				left := &leftOut{core: core, after: after, counts: map[string]int{}}
				core = zapcore.NewSamplerWithOptions(core, time.Minute, maxLines, oneOf, zapcore.SamplerHook(left.count))
			}
			return cutting{core}
		})))
}

// leftOut counts the lines that are left out. It is safe for concurrent use.
type leftOut struct {
	core  zapcore.Core
	after func(time.Duration, func())

	mu     sync.Mutex
	counts map[string]int
}

// maxMessages is how many messages are counted apart in a minute. Messages are constant, those of libraries not all.
const maxMessages = 50

// count is a hook of the sampler. The first line that is left out begins a minute.
func (l *leftOut) count(entry zapcore.Entry, decision zapcore.SamplingDecision) {
	if decision&zapcore.LogDropped == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	message := cut(entry.Message)
	if _, isKnown := l.counts[message]; !isKnown && len(l.counts) >= maxMessages {
		message = "others"
	}
	if len(l.counts) == 0 {
		l.after(time.Minute, l.report)
	}
	l.counts[message]++
}

// report logs how many lines of which messages were left out.
func (l *leftOut) report() {
	l.mu.Lock()
	counts := l.counts
	l.counts = map[string]int{}
	l.mu.Unlock()
	// A log that cannot be written has no other place.
	_ = l.core.Write(zapcore.Entry{Level: zapcore.InfoLevel, Time: time.Now(), Message: "Lines were left out of the log"}, []zapcore.Field{uberzap.Any("lines", counts)})
}

// cutting cuts texts that are longer than maxText.
type cutting struct{ zapcore.Core }

// With implements zapcore.Core.
func (c cutting) With(fields []zapcore.Field) zapcore.Core {
	return cutting{c.Core.With(cutFields(fields))}
}

// Check implements zapcore.Core.
func (c cutting) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Core.Check(entry, nil) == nil {
		return checked
	}
	return checked.AddCore(entry, c)
}

// Write implements zapcore.Core.
func (c cutting) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	entry.Message = cut(entry.Message)
	return c.Core.Write(entry, cutFields(fields)) //nolint:wrapcheck // Passed on as it is.
}

func cutFields(fields []zapcore.Field) []zapcore.Field {
	var cutOnes []zapcore.Field
	for i, field := range fields {
		text := textOf(field)
		if len(text) <= maxText {
			continue
		}
		if cutOnes == nil {
			cutOnes = append(cutOnes, fields...)
		}
		cutOnes[i] = uberzap.String(field.Key, cut(text))
	}
	if cutOnes == nil {
		return fields
	}
	return cutOnes
}

// textOf returns the text of a field, or "" for one of another type, and for a nil pointer, which zap logs as such.
func textOf(field zapcore.Field) (text string) {
	defer func() { _ = recover() }()
	switch value := field.Interface.(type) {
	case error:
		return value.Error()
	case fmt.Stringer:
		return value.String()
	}
	return field.String
}

func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(text[:maxText], ""), len(text))
}
