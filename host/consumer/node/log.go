package node

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	vklog "github.com/virtual-kubelet/virtual-kubelet/log"
)

// withLogger makes virtual-kubelet's library write to the logger of the context: at
// verbosity 1, its debug messages at 4.
func withLogger(ctx context.Context) context.Context {
	return vklog.WithLogger(ctx, logger{logr.FromContextOrDiscard(ctx).WithName("virtual-kubelet")})
}

// logger adapts logr to the library's interface.
type logger struct{ log logr.Logger }

var _ vklog.Logger = logger{}

func (l logger) Debug(args ...any)            { l.at(4, fmt.Sprint(args...)) }
func (l logger) Debugf(f string, args ...any) { l.at(4, fmt.Sprintf(f, args...)) }
func (l logger) Info(args ...any)             { l.at(1, fmt.Sprint(args...)) }
func (l logger) Infof(f string, args ...any)  { l.at(1, fmt.Sprintf(f, args...)) }
func (l logger) Warn(args ...any)             { l.at(1, fmt.Sprint(args...)) }
func (l logger) Warnf(f string, args ...any)  { l.at(1, fmt.Sprintf(f, args...)) }
func (l logger) Error(args ...any)            { l.at(1, fmt.Sprint(args...)) }
func (l logger) Errorf(f string, args ...any) { l.at(1, fmt.Sprintf(f, args...)) }
func (l logger) Fatal(args ...any)            { l.log.Error(nil, fmt.Sprint(args...)) }
func (l logger) Fatalf(f string, args ...any) { l.log.Error(nil, fmt.Sprintf(f, args...)) }

func (l logger) at(level int, message string) { l.log.V(level).Info(message) }

// WithField implements vklog.Logger.
func (l logger) WithField(key string, value any) vklog.Logger {
	return logger{l.log.WithValues(key, value)}
}

// WithFields implements vklog.Logger.
func (l logger) WithFields(fields vklog.Fields) vklog.Logger {
	for key, value := range fields {
		l.log = l.log.WithValues(key, value)
	}
	return l
}

// WithError implements vklog.Logger.
func (l logger) WithError(err error) vklog.Logger {
	if err == nil {
		return l
	}
	return logger{l.log.WithValues("cause", err.Error())}
}
