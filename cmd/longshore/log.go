package main

import (
	"fmt"
	"io"
	"strings"
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
// a minute has maxLines lines, and then one of each oneOf.
const (
	maxLines = 200
	oneOf    = 1000
)

// newLogger returns a logger for text or JSON.
func newLogger(to io.Writer, text bool, verbosity int) logr.Logger {
	return zap.New(zap.WriteTo(to), zap.UseDevMode(text), zap.Level(uberzap.NewAtomicLevelAt(zapcore.Level(-verbosity))),
		// Errors are wrapped with what was being done; where in the code is for bugs.
		zap.StacktraceLevel(zapcore.DPanicLevel),
		zap.RawZapOpts(uberzap.WrapCore(func(core zapcore.Core) zapcore.Core {
			if verbosity == 0 {
				core = zapcore.NewSamplerWithOptions(core, time.Minute, maxLines, oneOf)
			}
			return cutting{core}
		})))
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
