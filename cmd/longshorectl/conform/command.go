// Package conform is `longshorectl conform`: it tests an installation from outside.
package conform

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/cmd/longshorectl/admin"
	"github.com/longshore-dev/longshore/cmd/longshorectl/cluster"
	"github.com/longshore-dev/longshore/cmd/longshorectl/console"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	suite "github.com/longshore-dev/longshore/conformance/cluster"
	"github.com/longshore-dev/longshore/conformance/report"
)

const example = `  # Do two peered clusters do what the wire promises?
  longshorectl conform cluster --consumer rome.kubeconfig --provider milan.kubeconfig

  # The report, with a page for people and the results for a pipeline
  longshorectl conform cluster --consumer rome.kubeconfig --provider milan.kubeconfig -o yaml --html report.html --junit report.xml`

const pollInterval = 200 * time.Millisecond

type flags struct {
	consumer, provider                cluster.Flags
	namespace, image, junit, htmlPage string
	timeout                           time.Duration
	format                            output.Format
}

// Cluster is longshorectl conform cluster.
func Cluster(streams admin.Streams) *cobra.Command {
	f := flags{}
	command := &cobra.Command{
		Use:   "cluster --consumer KUBECONFIG --provider KUBECONFIG",
		Short: "Test a consumer and a provider that are peered, from outside",
		Long: "Test a consumer and a provider that are peered, from outside: with the API servers of both and the rights of their administrators.\n" +
			"The command creates a namespace in the consumer, offloads it to the provider, runs a pod, and deletes all of it at its end,\n" +
			"also when it is interrupted. The profile Wire has what docs/reference/wire.md promises, the profile Longshore features of its\n" +
			"own, which are skipped for another implementation. docs/reference/cluster-conformance.md lists the checks.\n" +
			"-o yaml and -o json write the document ClusterConformanceReport.\n" +
			"Exit codes: 0 the installation conforms, 1 a cluster does not answer, is not installed, or could not be cleaned up, 2 wrong\n" +
			"command line, 5 a check failed.",
		Example: example,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.timeout <= 0 {
				return output.Usagef("invalid --timeout %s: it must be positive", f.timeout)
			}
			return f.run(cmd.Context(), streams)
		},
	}
	set := command.Flags()
	set.StringVar(&f.consumer.Kubeconfig, "consumer", "", "kubeconfig file of the consumer")
	set.StringVar(&f.consumer.Context, "consumer-context", "", "context of the consumer; the current one when absent")
	set.StringVar(&f.provider.Kubeconfig, "provider", "", "kubeconfig file of the provider; that of the consumer when absent")
	set.StringVar(&f.provider.Context, "provider-context", "", "context of the provider; the current one when absent")
	set.StringVar(&f.namespace, "namespace", "", "namespace to create in the consumer; "+suite.NamespacePrefix+" and a random suffix when absent")
	set.StringVar(&f.image, "image", "busybox", "image of the pods, with the command sleep")
	set.DurationVar(&f.timeout, "timeout", time.Minute, "how long a check may fail until it counts, and how long to wait for the clean-up")
	set.StringVar(&f.junit, "junit", "", "file for the results as JUnit XML")
	set.StringVar(&f.htmlPage, "html", "", "file for the report as an HTML page")
	f.format.AddTo(set)
	return command
}

// connect opens both clusters.
func (f *flags) connect() (suite.Options, error) {
	options := suite.Options{Namespace: f.namespace, Image: f.image, Timeout: f.timeout, PollInterval: pollInterval}
	if f.provider.Kubeconfig == "" && f.provider.Context == "" {
		return options, output.Usagef("set --provider or --provider-context")
	}
	if f.provider.Kubeconfig == "" {
		f.provider.Kubeconfig = f.consumer.Kubeconfig
	}
	consumer, _, err := f.consumer.Config()
	if err != nil {
		return options, fmt.Errorf("the consumer: %w", err)
	}
	provider, _, err := f.provider.Config()
	if err != nil {
		return options, fmt.Errorf("the provider: %w", err)
	}
	if options.Consumer, err = open("consumer", consumer); err != nil {
		return options, err
	}
	if options.Provider, err = open("provider", provider); err != nil {
		return options, err
	}
	options.Impersonate = func(user string, groups []string) (client.Client, error) {
		as := rest.CopyConfig(provider)
		as.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
		return open("provider", as)
	}
	return options, nil
}

func open(role string, config *rest.Config) (client.Client, error) {
	c, err := admin.Open(role, config, "")
	if err != nil {
		return nil, err
	}
	return c.Client, nil
}

func (f *flags) run(ctx context.Context, streams admin.Streams) error {
	options, err := f.connect()
	if err != nil {
		return err
	}
	steps := console.New(streams.Err)
	options.Step = func(rule suite.Rule, run func() suite.Outcome) {
		_ = steps.Step(rule.ID, func(func(string)) error { // the report has the outcome
			outcome := run()
			if outcome.Skipped != "" {
				return console.Skipped(outcome.Skipped)
			}
			return outcome.Err
		})
	}
	result, err := suite.Run(ctx, options)
	if result == nil {
		return fmt.Errorf("testing the installation: %w", err)
	}
	err = errors.Join(err, report.WriteFile(f.junit, result, report.ClusterJUnit), report.WriteFile(f.htmlPage, result, report.ClusterHTML))
	style := output.StyleOf(streams.Out, os.Getenv)
	if err := errors.Join(err, output.Print(streams.Out, f.format, result, func(w io.Writer) error { return text(w, style, result) })); err != nil {
		return err
	}
	if !result.Conforms {
		return &output.Exit{Code: output.CodeUnhealthy}
	}
	return nil
}
