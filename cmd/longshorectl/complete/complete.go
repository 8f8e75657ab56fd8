// Package complete offers values for the arguments and flags of longshorectl to a shell: the names
// of objects, which it reads from the cluster that the command line selects, and fixed values.
package complete

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// source returns the values that can stand on a command line. A cluster that cannot be read has no
// values: an error in the middle of a line that is being typed helps no user.
type source func(cmd *cobra.Command, args []string) []string

// value completes one argument or flag.
type value struct {
	source source
	// files completes paths, with the extensions if there are any.
	files      bool
	extensions []string
	// list completes each part of a value with commas.
	list bool
	// open values continue after what is offered.
	open bool
	// repeated arguments name several objects, each once; others are complete with the first.
	repeated bool
}

func oneOf(source source) value  { return value{source: source} }
func someOf(source source) value { return value{source: source, list: true} }

func fixed[T ~string](values ...T) value {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = string(v)
	}
	return oneOf(func(*cobra.Command, []string) []string { return words })
}

// AddTo adds the completion to a command and all below it. Hidden commands have none.
func AddTo(command *cobra.Command) {
	for _, child := range command.Commands() {
		AddTo(child)
	}
	if command.Hidden {
		return
	}
	_, name, _ := strings.Cut(command.CommandPath(), " ")
	if complete, ok := arguments[name]; ok {
		command.ValidArgsFunction = complete
	} else if takesNone(command) {
		command.ValidArgsFunction = cobra.NoFileCompletions
	}
	command.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		if found, ok := valueOf(name, flag); ok {
			// The only error is a flag that has a completion already.
			_ = command.RegisterFlagCompletionFunc(flag.Name, found.flag)
		}
	})
}

// takesNone reports whether a command is a group or has no arguments in its usage.
func takesNone(command *cobra.Command) bool {
	_, arguments, _ := strings.Cut(command.Use, " ")
	return command.HasSubCommands() || arguments == "" || strings.HasPrefix(arguments, "-")
}

// valueOf returns the completion of a flag: that of the flag in this command, else that of the
// name, else what its type lists.
func valueOf(command string, flag *pflag.Flag) (value, bool) {
	if found, ok := flags[command+" --"+flag.Name]; ok {
		return found, true
	}
	if found, ok := flags["--"+flag.Name]; ok {
		return found, true
	}
	if listed, ok := flag.Value.(interface{ Values() []string }); ok {
		return fixed(listed.Values()...), true
	}
	return value{}, false
}

// argument is a [cobra.CompletionFunc] for the arguments of a command.
func (v value) argument(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 && !v.repeated {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return v.complete(cmd, args, typed)
}

// flag is a [cobra.CompletionFunc] for the value of a flag.
func (v value) flag(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	return v.complete(cmd, args, typed)
}

func (v value) complete(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	switch {
	case len(v.extensions) > 0:
		return v.extensions, cobra.ShellCompDirectiveFilterFileExt
	case v.files:
		return nil, cobra.ShellCompDirectiveDefault
	case v.source == nil:
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	head, taken := "", args
	if v.list {
		head = typed[:strings.LastIndex(typed, ",")+1]
		taken = strings.Split(head, ",")
	}
	values := matching(v.source(cmd, args), head, typed, taken)
	if (v.open || v.list) && len(values) > 0 {
		return values, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	return values, cobra.ShellCompDirectiveNoFileComp
}

// matching returns the values behind a head that start with what was typed and are not taken yet,
// sorted, each once.
func matching(values []string, head, typed string, taken []string) []string {
	var found []string
	for _, name := range values {
		if candidate := head + name; name != "" && strings.HasPrefix(candidate, typed) && !slices.Contains(taken, name) {
			found = append(found, candidate)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}
