package status

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/longshore-dev/longshore/cmd/longshorectl/admin"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
)

// Status is longshorectl status.
func Status(streams admin.Streams) *cobra.Command {
	f, format := admin.Flags{}, output.Text
	command := &cobra.Command{
		Use:   "status",
		Short: "Say what is wrong and who must act, then what is peered, granted and used",
		Long: "Say what is wrong and who must act, then which clusters are peered with this one, what is granted and what pods request of it. Pods that are\n" +
			"refused, unscheduled or not ready for two minutes are counted by the reason. What you have no right to read is named, and is no problem.\n" +
			"Exit codes: 0 no problem, 1 failed, 2 wrong command line, 5 problems were found.",
		Example: "  longshorectl status\n  longshorectl status -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			report, err := look(cmd.Context(), &f)
			if err != nil {
				return err
			}
			style := output.StyleOf(streams.Out, os.Getenv)
			if err := output.Print(streams.Out, format, report, func(w io.Writer) error { return report.text(w, style) }); err != nil {
				return err
			}
			if len(report.Problems) > 0 {
				return &output.Exit{Code: output.CodeUnhealthy}
			}
			return nil
		},
	}
	f.AddTo(command, "cluster", 0)
	format.AddTo(command.Flags())
	return command
}

// Info is longshorectl info.
func Info(streams admin.Streams) *cobra.Command {
	f, format, get := admin.Flags{}, output.Text, ""
	command := &cobra.Command{
		Use:   "info [PEER]",
		Short: "Describe this cluster, or one of its peers",
		Long: "Describe this cluster, or one of its peers. --get prints one field of what -o json prints, by its path: names are separated by dots, and their\n" +
			"case does not matter; an element of a list is named by its clusterID or name. clusterid is cluster.clusterID, and local, as in Liqo's scripts, is\n" +
			"cluster.\nExit codes: 0 described, 1 failed, 2 wrong command line.",
		Example: "  longshorectl info\n  longshorectl info milan -o yaml\n  longshorectl info --get clusterid\n  longshorectl info --get peers.milan.authentication",
		// The reference says `info peer milan`.
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 && args[0] != "peer" {
				return output.Usagef("name one peer")
			}
			report, err := look(cmd.Context(), &f)
			if err != nil {
				return err
			}
			style := output.StyleOf(streams.Out, os.Getenv)
			if len(args) == 0 || len(args) == 1 && args[0] == "peer" {
				return printInfo(streams.Out, format, get, report, func(w io.Writer) error { return report.text(w, style) })
			}
			peer, err := report.of(args[len(args)-1])
			if err != nil {
				return err
			}
			return printInfo(streams.Out, format, get, peer, func(w io.Writer) error { return report.details(w, style, peer) })
		},
	}
	f.AddTo(command, "cluster", 0)
	format.AddTo(command.Flags())
	command.Flags().StringVarP(&get, "get", "g", "", "path of the field to print, instead of everything")
	return command
}

// printInfo prints what is known, or one field of it.
func printInfo(w io.Writer, format output.Format, path string, value any, text func(io.Writer) error) error {
	if path == "" {
		return output.Print(w, format, value, text)
	}
	field, err := query(value, path)
	if err != nil {
		return err
	}
	return output.Print(w, format, field, func(w io.Writer) error {
		if line, ok := field.(string); ok {
			_, err := fmt.Fprintln(w, output.Sprintf("%s", line))
			return err //nolint:wrapcheck // A closed pipe.
		}
		return output.Print(w, output.YAML, field, nil)
	})
}

// of returns a peer, and leaves in the report the problems with it.
func (r *Report) of(id string) (*Peer, error) {
	i := slices.IndexFunc(r.Peers, func(p Peer) bool { return p.ClusterID == id })
	if i < 0 {
		return nil, output.Usagef("cluster %s has no peer %q; longshorectl status lists them", r.Cluster.ClusterID, id)
	}
	r.Problems = slices.DeleteFunc(r.Problems, func(p Problem) bool { return p.Peer != id })
	return &r.Peers[i], nil
}

func look(ctx context.Context, f *admin.Flags) (*Report, error) {
	c, err := f.Connect(ctx)
	if err != nil {
		return nil, err
	}
	s, err := read(ctx, c, time.Now())
	if err != nil {
		return nil, err
	}
	return build(s), nil
}
