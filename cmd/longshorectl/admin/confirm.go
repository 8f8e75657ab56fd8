package admin

import (
	"bufio"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
)

// Confirmation asks before data is destroyed.
type Confirmation struct{ skip bool }

// AddTo adds --skip-confirm.
func (c *Confirmation) AddTo(set *pflag.FlagSet) {
	set.BoolVar(&c.skip, "skip-confirm", false, "do not ask before data is destroyed; necessary in scripts")
}

// errNotConfirmed ends a command that was not confirmed.
var errNotConfirmed = errors.New("not confirmed; nothing was changed")

// Ask says what the command destroys and reads an answer, unless it destroys nothing, or that is to
// be skipped. An input that ends without an answer is a usage error.
func (c *Confirmation) Ask(streams Streams, what string) error {
	if c.skip || what == "" {
		return nil
	}
	fmt.Fprintf(streams.Err, "%s Continue? [y/N] ", what)
	answer, err := bufio.NewReader(streams.In).ReadString('\n')
	switch answer = strings.ToLower(strings.TrimSpace(answer)); {
	case answer == "y" || answer == "yes":
		return nil
	case err != nil && answer == "":
		fmt.Fprintln(streams.Err)
		return output.Usagef("no answer on the standard input: set --skip-confirm")
	default:
		return errNotConfirmed
	}
}
