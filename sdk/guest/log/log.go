// Package log writes lines to the host's log, where they appear with the module's
// name and point. The host keeps contract.MaxLogLines lines of a call. A log line is
// for the policy's author: what a user must know belongs into a warning or a denial.
//
//	log.Info("no pool for this node: leaving the node selector alone")
package log

import "github.com/longshore-dev/longshore/sdk/internal/abi"

// Debug writes a line at level debug.
func Debug(message string) { abi.Log(abi.Debug, message) }

// Info writes a line at level info.
func Info(message string) { abi.Log(abi.Info, message) }

// Warn writes a line at level warning.
func Warn(message string) { abi.Log(abi.Warn, message) }

// Error writes a line at level error. It does not make the call fail: return an
// error for that.
func Error(message string) { abi.Log(abi.Error, message) }
