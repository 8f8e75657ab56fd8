// Package cluster tests an installation from outside: it works on a consumer and a provider that
// are peered, with the API servers only, and checks what docs/reference/wire.md promises. Nothing in
// the profile Wire is Longshore's own, so an installation of the reference passes it too.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/app/check"
)

// NamespacePrefix begins the names of the namespaces of the suite.
const NamespacePrefix = "conformance-"

// Options of a run.
type Options struct {
	// Consumer and Provider act in the clusters with the rights of their administrators.
	Consumer, Provider client.Client
	// Impersonate returns a client of the provider with the rights of a user.
	Impersonate func(user string, groups []string) (client.Client, error)
	// Namespace is created in the consumer, and deleted at the end; a new name when empty.
	Namespace string
	// Image of the pods. It sleeps when it is called with the arguments of busybox.
	Image string
	// Timeout bounds each check and the removal at the end, PollInterval is the time between attempts.
	Timeout, PollInterval time.Duration
	// Step runs each check, so that a caller can show it; nil for none.
	Step func(rule Rule, run func() Outcome)
}

// Outcome is the result of one check.
type Outcome struct {
	// Err is the reason why the installation fails the check; nil if it passed or was skipped.
	Err error
	// Skipped is the reason why nothing was tested.
	Skipped string
}

// Rule is one sentence about an installation.
type Rule struct {
	// ID names the rule in reports.
	ID string
	// Profile is Wire for what every implementation must do, Longshore for features of its own.
	Profile string
	// Sentence is what an installation must do, Section where docs/reference/wire.md says so.
	Sentence, Section string
	// needs are the rules without which this one cannot be tested.
	needs []string
	run   func(*session, context.Context) error
}

// The profiles.
const (
	ProfileWire      = "Wire"
	ProfileLongshore = "Longshore"
)

// skip is the error of a check that does not apply.
type skip string

// Error implements error.
func (s skip) Error() string { return string(s) }

// session is what the checks of one run share.
type session struct {
	Options
	consumerID, providerID liqocorev1beta1.ClusterID
	// consumerHome and providerHome are the namespaces of the installations.
	consumerHome, providerHome string
	// nodes are the virtual nodes of the provider in the consumer.
	nodes []corev1.Node
	// remote is the namespace in the provider.
	remote string
}

// Run checks an installation. It returns an error if the clusters do not answer, if they are no
// consumer and provider, if the context ends, or if the namespace cannot be removed; the report has
// the results until then.
func Run(ctx context.Context, o Options) (*Report, error) {
	s := &session{Options: o}
	if s.Namespace == "" {
		s.Namespace = NamespacePrefix + rand.String(6)
	}
	if err := s.identify(ctx); err != nil {
		return nil, err
	}
	if err := s.createNamespace(ctx); err != nil {
		return nil, err
	}
	report := newReport(s)
	for _, rule := range rules() {
		if ctx.Err() != nil {
			break
		}
		outcome := Outcome{}
		s.step(rule, func() Outcome {
			outcome = s.check(ctx, rule, report)
			return outcome
		})
		if ctx.Err() != nil && outcome.Err != nil {
			break
		}
		report.add(rule, outcome)
	}
	var err error
	s.step(Rule{ID: "clean-up"}, func() Outcome {
		err = s.remove(ctx)
		return Outcome{Err: err}
	})
	if ctx.Err() != nil {
		err = errors.Join(fmt.Errorf("testing the installation: %w", context.Cause(ctx)), err)
	}
	return report, err
}

func (s *session) step(rule Rule, run func() Outcome) {
	if s.Step == nil {
		s.Step = func(_ Rule, run func() Outcome) { run() } // the report has the outcome
	}
	s.Step(rule, run)
}

// check runs one check until it passes or its time is over.
func (s *session) check(ctx context.Context, rule Rule, report *Report) Outcome {
	for _, needed := range rule.needs {
		if !report.passed(needed) {
			return Outcome{Skipped: "the check " + needed + " did not pass"}
		}
	}
	err := rule.run(s, ctx)
	if reason, ok := errors.AsType[skip](err); ok {
		return Outcome{Skipped: string(reason)}
	}
	return Outcome{Err: err}
}

// until runs a check again until it passes or is skipped, and returns its last error after the timeout.
func (s *session) until(ctx context.Context, check func(context.Context) error) error {
	return until(ctx, &s.Options, check)
}

func until(ctx context.Context, o *Options, run func(context.Context) error) error {
	var skipped error
	err := check.Eventually(ctx, o.PollInterval, o.Timeout, func(ctx context.Context) error {
		err := run(ctx)
		if _, ok := errors.AsType[skip](err); ok {
			skipped = err
			return nil
		}
		return err
	})
	return errors.Join(skipped, err)
}

// identify reads the IDs of both clusters.
func (s *session) identify(ctx context.Context) error {
	var err error
	if s.consumerID, s.consumerHome, err = readID(ctx, s.Consumer, "consumer"); err != nil {
		return err
	}
	if s.providerID, s.providerHome, err = readID(ctx, s.Provider, "provider"); err != nil {
		return err
	}
	if s.consumerID == s.providerID {
		return fmt.Errorf("both clusters have the ID %q: name two clusters", s.consumerID)
	}
	return nil
}

func readID(ctx context.Context, c client.Client, role string) (liqocorev1beta1.ClusterID, string, error) {
	list := &corev1.ConfigMapList{}
	err := c.List(ctx, list, client.MatchingLabels{"app.kubernetes.io/name": liqocorev1beta1.ClusterIDConfigMapLabelValue})
	if err != nil {
		return "", "", fmt.Errorf("reading the cluster ID of the %s: %w", role, err)
	}
	if len(list.Items) != 1 {
		return "", "", fmt.Errorf("the %s has %d ConfigMaps with a cluster ID, want 1: is Longshore installed there", role, len(list.Items))
	}
	id := liqocorev1beta1.ClusterID(list.Items[0].Data[liqocorev1beta1.ClusterIDConfigMapKey])
	if err := id.Validate(); err != nil {
		return "", "", fmt.Errorf("reading the cluster ID of the %s: %w", role, err)
	}
	return id, list.Items[0].Namespace, nil
}

// createNamespace creates the namespace of the run. It never takes one that exists: the suite deletes it.
func (s *session) createNamespace(ctx context.Context) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}
	err := s.Consumer.Create(ctx, namespace)
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating namespace %q in the consumer: %w: the suite deletes its namespace, name one that does not exist", s.Namespace, err)
	}
	if err != nil {
		return fmt.Errorf("creating namespace %q in the consumer: %w", s.Namespace, err)
	}
	return nil
}

// remove deletes the namespace of the run, also after an interrupt, and waits until it is gone in
// both clusters.
func (s *session) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Timeout)
	defer cancel()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}
	if err := s.Consumer.Delete(ctx, namespace); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting namespace %q in the consumer: %w", s.Namespace, err)
	}
	return s.until(ctx, func(ctx context.Context) error {
		if err := absent(ctx, s.Consumer, namespace); err != nil {
			return fmt.Errorf("removing what the suite created from the consumer: %w", err)
		}
		if err := absent(ctx, s.Provider, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.remoteName()}}); err != nil {
			return fmt.Errorf("removing what the suite created from the provider: %w", err)
		}
		return nil
	})
}

// remoteName is that of the namespace in the provider, with the strategy DefaultName.
func (s *session) remoteName() string { return s.Namespace + "-" + string(s.consumerID) }

// Rules returns the rules of the suite in the order in which they are tested.
func Rules() []Rule { return slices.Clone(rules()) }
