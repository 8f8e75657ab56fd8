// Package plan implements `longshorectl plan`: it shows what Longshore would do with the pods
// of files. The prediction is that of host/planner; this package reads files and clusters, and
// prints.
package plan

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/longshore-dev/longshore/cmd/longshorectl/cluster"
	"github.com/longshore-dev/longshore/cmd/longshorectl/console"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/host/policy/engine"
)

const example = `  # What would happen to these pods in the cluster of kubectl?
  longshorectl plan -f app.yaml

  # And with the default policies, without a cluster?
  longshorectl plan -f app.yaml --offline

  # Each change, with the policy or rule that did it, and each object that is needed
  longshorectl plan -f app.yaml --offline --namespace-offloading offloading.yaml --virtual-node milan.yaml --policies policies/ -o wide

  # In another cluster, with its policies, virtual nodes, ConfigMaps, Secrets and Services
  longshorectl plan -f app.yaml --kubeconfig rome.kubeconfig -n shop

  # The ShadowPod that would be sent
  longshorectl plan -f app.yaml -o json | jq '.plans[0].shadowPod'`

// showProgress is the number of templates from which progress is shown.
const showProgress = 500

// Command returns `plan`.
func Command(in io.Reader, out io.Writer, getenv func(string) string, compile engine.Compiler) *cobra.Command {
	var from Flags
	var format output.Tables
	command := &cobra.Command{
		Use:   "plan -f FILE",
		Short: "Show what would become of the pods in files: the node, the ShadowPod, what changes and why, and what is missing",
		Long: "Show what would become of the pods in files before they are created: whether the pod webhook admits them, on which virtual nodes\n" +
			"they may land, which ShadowPod is sent, which policy or rule drops or changes a field, which ConfigMaps, Secrets, Services and\n" +
			"claims they need, and the first reason why they would not run.\n" +
			"As kubectl, the command reads the cluster of --kubeconfig, KUBECONFIG or the kubeconfig in the home folder, and objects in the files\n" +
			"take the place of those in the cluster. With --offline, and without a kubeconfig, it reads files only: what they do not have is\n" +
			"assumed, and printed. Nothing is written.\n" +
			"Pods are planned as they are in the files. For the fields that the API server adds as well, plan the result of\n" +
			"kubectl create --dry-run=server -n NAMESPACE -o yaml.\n" +
			"Exit codes: 0 all pods can run, 1 a file or the cluster cannot be read, 2 wrong command line, 4 a pod would be refused or stay Pending.",
		Example: example,
		Args:    from.Args,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options, err := from.Options(in)
			if err != nil {
				return err
			}
			options.Compiler = compile
			options.Step = follow(cmd.ErrOrStderr())
			result, err := Run(cmd.Context(), options)
			if err != nil {
				return err
			}
			text := PrintTable
			if format.Wide {
				text = PrintWide
			}
			if err := output.Print(out, format.Format, result, func(w io.Writer) error {
				return text(w, result, output.StyleOf(w, getenv), widthOf(w))
			}); err != nil {
				return err
			}
			if result.Failed() {
				return &output.Exit{Code: output.CodeDenied}
			}
			return nil
		},
	}
	from.AddTo(command.Flags())
	format.AddTo(command.Flags())
	return command
}

// Flags select what is planned.
type Flags struct {
	options                      Options
	here                         cluster.Flags
	isOffline                    bool
	offloadings, nodes, policies []string
}

// AddTo adds the flags.
func (f *Flags) AddTo(flags *pflag.FlagSet) {
	flags.StringSliceVarP(&f.options.Files, "filename", "f", nil, "file or folder with the pods, and what they need; - for the standard input; may be repeated")
	flags.StringSliceVar(&f.offloadings, "namespace-offloading", nil, "file with NamespaceOffloadings")
	flags.StringSliceVar(&f.nodes, "virtual-node", nil, "file with VirtualNodes")
	flags.StringSliceVar(&f.policies, "policies", nil, "file or folder with OffloadingPolicies and the ConfigMaps of their modules; the built-in policies when absent")
	flags.StringVar(&f.options.NodeName, "node", "", "virtual node for which the ShadowPod is built; the first that takes the pod when absent")
	flags.StringVar(&f.options.HomeClusterID, "cluster-id", "", "ID of the consumer; that of the cluster when absent")
	flags.StringVar(&f.options.RuntimeClassName, "runtime-class", "liqo", "name of the runtime class with which pods are placed on virtual nodes")
	flags.StringVar(&f.options.CacheDir, "policy-cache-dir", "", "folder that keeps compiled policies for the next command; one below the user's caches when absent")
	flags.BoolVar(&f.isOffline, "offline", false, "read files only, and no cluster")
	f.here.AddTo(flags)
	f.here.AddNamespaceTo(flags)
}

// Args checks the arguments of a command with these flags.
func (f *Flags) Args(_ *cobra.Command, args []string) error {
	switch {
	case len(args) > 0:
		return output.Usagef("unexpected argument %q: name files with -f", args[0])
	case len(f.options.Files) == 0:
		return output.Usagef("want the files with the pods: -f FILE, or -f - for the standard input")
	case f.isOffline && (f.here.Kubeconfig != "" || f.here.Context != ""):
		return output.Usagef("--offline reads no cluster: leave out --kubeconfig and --context")
	}
	return nil
}

// Options returns what the flags select, with a cluster unless they exclude it or no kubeconfig exists.
func (f *Flags) Options(in io.Reader) (Options, error) {
	options := f.options
	options.In, options.Facts, options.Namespace = in, slices.Concat(f.policies, f.offloadings, f.nodes), f.here.Namespace
	if !f.isOffline && f.here.Exists() {
		live, namespace, err := connect(&f.here)
		if err != nil {
			return Options{}, orOffline(err)
		}
		options.Live, options.Namespace = live, namespace
	}
	options.CacheDir = usableCacheDir(options.CacheDir)
	return options, nil
}

// orOffline adds to an error of the cluster how to do without.
func orOffline(err error) error { return fmt.Errorf("%w; --offline reads files only", err) }

// defaultCacheDir returns the folder for compiled policies below that of the user's caches; ""
// if the user has none.
func defaultCacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "longshorectl")
}

// usableCacheDir returns the folder for compiled policies; "" if there is none that can be
// created, and the command then compiles policies each time.
func usableCacheDir(dir string) string {
	if dir != "" {
		return dir
	}
	if dir = defaultCacheDir(); dir == "" || os.MkdirAll(dir, 0o700) != nil {
		return ""
	}
	return dir
}

// follow returns a Step that shows the progress of many templates, and how long they took.
func follow(errOut io.Writer) Step {
	return func(templates int, run func(progress func(done int)) error) error {
		if templates < showProgress {
			return run(func(int) {})
		}
		shown := console.NewPlain(errOut)
		if file, ok := errOut.(*os.File); ok {
			shown = console.New(file)
		}
		err := shown.Step(fmt.Sprintf("Planning %d pod templates", templates), func(progress func(string)) error {
			return run(func(done int) { progress(fmt.Sprintf("%d of %d", done, templates)) })
		})
		return err
	}
}

// defaultWidth is the width of text in a pipe.
const defaultWidth = 80

// widthOf returns the number of columns of a writer.
func widthOf(w io.Writer) int {
	if file, ok := w.(*os.File); ok {
		if width := console.Width(file); width > 0 {
			return width
		}
	}
	return defaultWidth
}
