// Package output prints the results of longshorectl as text, in color only on a terminal,
// or as JSON or YAML, and maps errors to exit codes.
package output

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	"github.com/fatih/color"
	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/longshore-dev/longshore/host/kit/plaintext"
)

// The exit codes of longshorectl.
const (
	// CodeDone: all is well.
	CodeDone = 0
	// CodeFailed: the command could not do its work.
	CodeFailed = 1
	// CodeUsage: the command line is wrong.
	CodeUsage = 2
	// CodeModule: the module is refused, or gave no valid answer.
	CodeModule = 3
	// CodeDenied: the policy refused the object, or the provider the request.
	CodeDenied = 4
	// CodeUnhealthy: longshorectl status found a problem, or longshorectl conform a check that failed.
	CodeUnhealthy = 5
)

// Exit is the end of a command that is not CodeFailed.
type Exit struct {
	// Code of the process.
	Code int
	// Err is printed on the standard error; nil if the standard output has the reason.
	Err error
}

// Error implements error.
func (e *Exit) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *Exit) Unwrap() error { return e.Err }

// Usage marks an error as one of the command line.
func Usage(err error) error { return &Exit{Code: CodeUsage, Err: err} }

// Usagef is Usage of a message.
func Usagef(format string, arguments ...any) error { return Usage(fmt.Errorf(format, arguments...)) }

// Group makes a command a group of subcommands: it prints its help, and an unknown
// subcommand is a usage error.
func Group(command *cobra.Command) {
	command.SuggestionsMinimumDistance = 2
	command.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			return Usagef("%s has no command %q; did you mean %s?", c.CommandPath(), args[0], strings.Join(near, " or "))
		}
		return Usagef("%s has no command %q; %[1]s --help lists them", c.CommandPath(), args[0])
	}
	command.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
}

// UsageArgs makes wrong numbers of arguments usage errors, in a command and all below it.
func UsageArgs(command *cobra.Command) {
	if check := command.Args; check != nil {
		command.Args = func(c *cobra.Command, args []string) error {
			err := check(c, args)
			if _, ok := errors.AsType[*Exit](err); err == nil || ok {
				return err
			}
			return Usage(err)
		}
	}
	for _, child := range command.Commands() {
		UsageArgs(child)
	}
}

// ExitCode returns the exit code for the outcome of a command, and what to print on the
// standard error, if anything.
func ExitCode(err error) (code int, message string) {
	if err == nil {
		return CodeDone, ""
	}
	exit, ok := errors.AsType[*Exit](err)
	switch {
	case !ok:
		return CodeFailed, err.Error()
	case exit.Err == nil:
		return exit.Code, ""
	default:
		return exit.Code, err.Error()
	}
}

// Format is the value of --output.
type Format string

// The formats. The zero value is text.
const (
	Text Format = ""
	JSON Format = "json"
	YAML Format = "yaml"
)

// AddTo adds the flag.
func (f *Format) AddTo(flags *pflag.FlagSet) {
	flags.VarP(f, "output", "o", "table or wide, which is text for people, json or yaml")
}

// AddEncodedTo adds the flag to a command that prints objects and no text. The usage says what it does
// without the flag.
func (f *Format) AddEncodedTo(flags *pflag.FlagSet, absent string) {
	flags.VarP((*encoded)(f), "output", "o", "json or yaml; "+absent)
}

// String implements pflag.Value.
func (f *Format) String() string {
	if *f == Text {
		return table
	}
	return string(*f)
}

// Type implements pflag.Value.
func (f *Format) Type() string { return "format" }

// Values are the formats that can be set.
func (f *Format) Values() []string { return (&Tables{}).Values() }

// Set implements pflag.Value.
func (f *Format) Set(value string) error {
	var tables Tables
	if err := tables.Set(value); err != nil {
		return err
	}
	*f = tables.Format
	return nil
}

// encoded is a Format that is not text.
type encoded Format

// String implements pflag.Value.
func (e *encoded) String() string { return string(*e) }

// Type implements pflag.Value.
func (e *encoded) Type() string { return "format" }

// Values are the formats that can be set.
func (e *encoded) Values() []string { return []string{string(JSON), string(YAML)} }

// Set implements pflag.Value.
func (e *encoded) Set(value string) error {
	switch Format(value) {
	case JSON, YAML:
		*e = encoded(value)
		return nil
	default:
		return fmt.Errorf("%q is none of %s", value, strings.Join(e.Values(), ", "))
	}
}

// Print writes the value in the format; text writes it for people.
func Print(w io.Writer, format Format, value any, text func(io.Writer) error) error {
	var data []byte
	var err error
	switch format {
	case JSON:
		if data, err = json.MarshalIndent(value, "", "  "); err == nil {
			data = append(data, '\n')
		}
	case YAML:
		data, err = yaml.Marshal(value)
	case Text:
		return text(w)
	}
	if err != nil {
		return fmt.Errorf("encoding the answer: %w", err)
	}
	if _, err := w.Write(data); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}

// Style colors words, or leaves them alone.
type Style struct{ on bool }

// StyleOf returns the style for a writer: color only on a terminal, and never when
// NO_COLOR is set.
func StyleOf(w io.Writer, getenv func(string) string) Style {
	file, ok := w.(*os.File)
	return Style{on: ok && isatty.IsTerminal(file.Fd()) && getenv("NO_COLOR") == ""}
}

// Colored returns a style that colors, or one that does not.
func Colored(on bool) Style { return Style{on: on} }

// Painted is text that a Style has made safe for a terminal and may have colored.
type Painted string

// Good paints what went well.
func (s Style) Good(text string) Painted { return s.paint(text, color.FgGreen) }

// Bad paints what did not go well.
func (s Style) Bad(text string) Painted { return s.paint(text, color.FgRed) }

// Title paints the name of a section.
func (s Style) Title(text string) Painted { return s.paint(text, color.Bold) }

func (s Style) paint(text string, attribute color.Attribute) Painted {
	text = plaintext.Line(text)
	c := color.New(attribute)
	if s.on {
		c.EnableColor()
	} else {
		c.DisableColor()
	}
	return Painted(c.Sprint(text))
}

// Sprintf is fmt.Sprintf for a terminal. Arguments may be chosen by a policy or by a user
// of the cluster: those that are strings become one line without control characters, as
// [plaintext.Line] makes it. Only Painted arguments are passed on unchanged.
func Sprintf(format string, arguments ...any) string {
	safe := make([]any, len(arguments))
	for i, argument := range arguments {
		safe[i] = argument
		if _, ok := argument.(Painted); !ok && reflect.ValueOf(argument).Kind() == reflect.String {
			safe[i] = plaintext.Line(reflect.ValueOf(argument).String())
		}
	}
	return fmt.Sprintf(format, safe...)
}
