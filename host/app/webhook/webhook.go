// Package webhook composes the admission webhooks: of the consumer for pods, VirtualNodes,
// NamespaceOffloadings, policies and their modules, of the provider for ShadowPods. Every replica
// serves, without leader election.
package webhook

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/policies"
	"github.com/longshore-dev/longshore/host/app/process"
	"github.com/longshore-dev/longshore/host/consumer/admission/namespaceoffloading"
	"github.com/longshore-dev/longshore/host/consumer/admission/podplacement"
	"github.com/longshore-dev/longshore/host/consumer/admission/policymodule"
	"github.com/longshore-dev/longshore/host/consumer/admission/virtualnode"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
	"github.com/longshore-dev/longshore/host/kit/servingcert"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policysource"
	"github.com/longshore-dev/longshore/host/provider/admission/claim"
	"github.com/longshore-dev/longshore/host/provider/admission/shadowpod"
	"github.com/longshore-dev/longshore/host/provider/quota"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// component is the name of this process in reports on policies, followed by the name of its pod.
const component = "webhook"

// Options configures an App. The names are those of the command's flags.
type Options struct {
	process.Options
	// PodName is the name of this replica's pod. It is empty outside of a cluster.
	PodName string
	// BindAddress and Port are where the webhooks listen.
	BindAddress string
	Port        int
	// ShutdownDelay is how long the server serves after a signal, until the Service's endpoints
	// are updated.
	ShutdownDelay time.Duration
	// SecretName is the Secret of the serving certificate, ServiceName the Service that it is for.
	SecretName, ServiceName string
	// ConfigurationName is the name of both webhook configurations.
	ConfigurationName string
	// PodCIDRs of the local cluster, passed to virtual kubelets.
	PodCIDRs []string
	// DefaultOptions is the VkOptionsTemplate of VirtualNodes without a reference to one.
	DefaultOptions client.ObjectKey
	// PriorityClassName is the priority class of virtual kubelets; it may be empty.
	PriorityClassName string
	// NodeSelector and Affinity of the pods of virtual kubelets; both may be empty. Affinity is
	// JSON, as in a pod.
	NodeSelector map[string]string
	Affinity     string
	// ExternalCertificate says that another controller keeps the serving certificate in the Secret.
	ExternalCertificate bool
	// RuntimeClassName is the cluster's Liqo runtime class.
	RuntimeClassName string
	// ResourceEnforcement restricts the ShadowPods of consumers to their Quotas.
	ResourceEnforcement bool
	// Allowed is what consumers may choose for their pods.
	Allowed shadowpod.Allowed
	// PolicyCacheDir is the directory of compiled policies. If empty, they are not cached.
	PolicyCacheDir string
	// PrecompiledPolicyDir holds the compiled built-in policies; it may be absent.
	PrecompiledPolicyDir string
	// PolicyCompiler compiles modules in another process. If nil, they are compiled in this one
	// without a memory limit.
	PolicyCompiler engine.Compiler
	// PolicyNamespaces are the namespaces beside Longshore's own whose ConfigMaps may
	// hold modules of policies.
	PolicyNamespaces []string
	// PolicyReportKeys are the public keys of the conformance reports that modules need; none if they
	// need no report.
	PolicyReportKeys []string
}

// Validate returns every invalid option.
func (o *Options) Validate() error {
	required := map[string]string{
		"--secret-name":                 o.SecretName,
		"--vk-options-default-template": o.DefaultOptions.Name, "--liqo-runtime-class": o.RuntimeClassName,
		"--service-name": o.ServiceName, "--configuration-name": o.ConfigurationName,
	}
	errs := []error{o.Options.Validate()}
	for _, flag := range slices.Sorted(maps.Keys(required)) {
		if required[flag] == "" {
			errs = append(errs, fmt.Errorf("%s is required", flag))
		}
	}
	for _, cidr := range o.PodCIDRs {
		if _, err := netip.ParsePrefix(cidr); err != nil {
			errs = append(errs, fmt.Errorf("parsing --podcidr %q: %w", cidr, err))
		}
	}
	if _, err := o.affinity(); err != nil {
		errs = append(errs, err)
	}
	if err := policies.ValidateNamespaces(o.PolicyNamespaces); err != nil {
		errs = append(errs, err)
	}
	if err := policies.ValidateReportKeys(o.PolicyReportKeys); err != nil {
		errs = append(errs, err)
	}
	if o.ShutdownDelay < 0 {
		errs = append(errs, fmt.Errorf("--shutdown-delay is %s: it cannot be negative", o.ShutdownDelay))
	}
	if o.Port < 1 || o.Port > 65535 {
		errs = append(errs, fmt.Errorf("--webhook-port is %d: it must be between 1 and 65535", o.Port))
	}
	return errors.Join(errs...)
}

// affinity parses Affinity; nil means none.
func (o *Options) affinity() (*corev1.Affinity, error) {
	if o.Affinity == "" {
		return nil, nil
	}
	affinity := &corev1.Affinity{}
	decoder := json.NewDecoder(strings.NewReader(o.Affinity))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(affinity); err != nil {
		return nil, fmt.Errorf("parsing --vk-affinity %q: %w", o.Affinity, err)
	}
	return affinity, nil
}

// cluster describes this cluster to the templates of virtual kubelets.
func (o *Options) cluster() virtualkubelet.Cluster {
	affinity, _ := o.affinity() // Validate has parsed it.
	return virtualkubelet.Cluster{
		ID: o.ClusterID, Namespace: o.Namespace, LocalPodCIDRs: o.PodCIDRs, PriorityClassName: o.PriorityClassName,
		NodeSelector: o.NodeSelector, Affinity: affinity,
	}
}

// App is the composed webhook server.
type App struct {
	process  *process.App
	policies *policies.Policies
	quotas   *quota.Enforcer
	drain    *drain
}

// New composes the server; nothing runs yet.
func New(ctx context.Context, options Options) (*App, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	keeper := &servingcert.Keeper{
		Clock:      clock.RealClock{},
		Secret:     client.ObjectKey{Namespace: options.Namespace, Name: options.SecretName},
		DNSNames:   dnsNames(options.ServiceName, options.Namespace),
		Mutating:   []string{options.ConfigurationName},
		Validating: []string{options.ConfigurationName},
		External:   options.ExternalCertificate,
		OnError: func(err error) {
			ctrl.Log.WithName("servingcert").Error(err, "Failed to update the serving certificate, retrying")
		},
	}
	a := &App{drain: &drain{delay: options.ShutdownDelay, clock: clock.RealClock{}}}
	var err error
	a.process, err = process.New(&options.Options, process.Definition{
		Name: "the webhook server",
		Cache: map[client.Object]cache.ByObject{
			&corev1.ConfigMap{}:                                       policies.CacheOf(options.modules()),
			&offloadingv1beta1.ShadowPod{}:                            {Transform: quota.Trim},
			&corev1.PersistentVolumeClaim{}:                           {Transform: quota.TrimClaim},
			&admissionregistrationv1.MutatingWebhookConfiguration{}:   selectName(options.ConfigurationName),
			&admissionregistrationv1.ValidatingWebhookConfiguration{}: selectName(options.ConfigurationName),
		},
		Alter: func(o *ctrl.Options) (err error) {
			o.WebhookServer = webhook.NewServer(webhook.Options{
				Host: options.BindAddress, Port: options.Port,
				TLSOpts: []func(*tls.Config){func(c *tls.Config) {
					c.GetCertificate = keeper.GetCertificate
				}},
			})
			o.Client = client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Node{}}}}
			if keeper.Client, err = client.New(options.Config, client.Options{Scheme: o.Scheme}); err != nil {
				return fmt.Errorf("creating the client of the local cluster: %w", err)
			}
			return nil
		},
		Add: func(mgr ctrl.Manager) error {
			changes, err := watchConfigurations(ctx, mgr.GetCache())
			if err != nil {
				return err
			}
			keeper.Changes = changes
			if err := mgr.Add(keeper); err != nil {
				return fmt.Errorf("adding the certificate keeper: %w", err)
			}
			return a.add(ctx, mgr, options)
		},
		Ready: func(*http.Request) error {
			if !keeper.Ready() {
				return errors.New("the serving certificate is not ready yet")
			}
			if a.quotas != nil && !a.quotas.Account.Synced() {
				return errors.New("the ShadowPods of this cluster are not known yet")
			}
			return a.policies.Ready()
		},
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}

// add adds the policies and the handlers.
func (a *App) add(ctx context.Context, mgr ctrl.Manager, options Options) error {
	observer, err := policysource.NewMetrics(metrics.Registry)
	if err != nil {
		return fmt.Errorf("adding the metrics of policies: %w", err)
	}
	a.policies, err = policies.New(ctx, mgr, policies.Options{
		Identity: policies.OfPod(mgr.GetAPIReader(), component, client.ObjectKey{Namespace: options.Namespace, Name: options.PodName}),
		CacheDir: options.PolicyCacheDir, PrecompiledDir: options.PrecompiledPolicyDir, Compiler: options.PolicyCompiler,
		ReportKeys: options.PolicyReportKeys, ModuleNamespaces: options.modules(), Metrics: observer,
		Stages: []chain.Stage{{Point: contract.PodMutation, Moment: contract.MomentAdmission}, {Point: contract.ShadowPodAdmission}},
	})
	if err != nil {
		return err
	}
	if options.ResourceEnforcement {
		if err := a.addQuotas(ctx, mgr); err != nil {
			return err
		}
	}
	a.register(mgr, options)
	return nil
}

// addQuotas adds the enforcement of Quotas.
func (a *App) addQuotas(ctx context.Context, mgr ctrl.Manager) error {
	a.quotas = &quota.Enforcer{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Account: quota.NewAccount(clock.RealClock{}), Clock: clock.RealClock{},
	}
	if err := errors.Join(quota.Index(ctx, mgr.GetFieldIndexer()), a.quotas.Account.Watch(ctx, mgr.GetCache())); err != nil {
		return err
	}
	if _, err := mgr.GetCache().GetInformer(ctx, &corev1.PersistentVolumeClaim{}); err != nil {
		return fmt.Errorf("watching claims: %w", err)
	}
	if err := metrics.Registry.Register(&quota.Metrics{Reader: mgr.GetClient()}); err != nil {
		return fmt.Errorf("adding the metrics of Quotas: %w", err)
	}
	return a.quotas.SetupWithManager(mgr)
}

// modules returns the namespaces of ConfigMaps with modules of policies.
func (o *Options) modules() []string { return policies.Namespaces(o.Namespace, o.PolicyNamespaces) }

func dnsNames(service, namespace string) []string {
	return []string{
		service + "." + namespace + ".svc", service, service + "." + namespace, service + "." + namespace + ".svc.cluster.local",
	}
}

// register registers the handlers, each of which finishes its requests.
func (a *App) register(mgr ctrl.Manager, options Options) {
	decoder := admission.NewDecoder(mgr.GetScheme())
	serve := func(path string, handler http.Handler) {
		mgr.GetWebhookServer().Register(path, a.drain.finish(handler))
	}
	serve(podplacement.Path, &admission.Webhook{Handler: &podplacement.Handler{
		Reader: mgr.GetClient(), Policies: a.policies.Chains(), RuntimeClassName: options.RuntimeClassName,
	}})
	serve(namespaceoffloading.Path, &admission.Webhook{Handler: &namespaceoffloading.Handler{
		Decoder: decoder, Reader: mgr.GetAPIReader(), ClusterID: options.ClusterID, Namespace: options.Namespace,
	}})
	serve(policymodule.Path, &admission.Webhook{Handler: &policymodule.Handler{
		Decoder: decoder, Reader: mgr.GetClient(), Judge: a.policies, Namespace: options.Namespace,
	}})
	serve(virtualnode.Path, &admission.Webhook{Handler: &virtualnode.Handler{
		Reader: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Decoder: decoder, DefaultOptions: options.DefaultOptions,
		Cluster: options.cluster(),
	}})
	serve(shadowpod.MutatePath, &admission.Webhook{Handler: &shadowpod.Mutator{
		Decoder: decoder, Enforce: a.quotas != nil, Allowed: options.Allowed, Policies: &shadowpod.Policies{
			Evaluator: a.policies.Chains(), Reader: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Quotas: a.quotas,
		},
	}})
	serve(claim.Path, &admission.Webhook{Handler: &claim.Validator{
		Decoder: decoder, Reader: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Quotas: a.quotas,
	}})
	serve(shadowpod.ValidatePath, &admission.Webhook{Handler: &shadowpod.Validator{
		Decoder: decoder, Reader: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Quotas: a.quotas,
	}})
}

// Run serves until the context ends and the delay after it.
func (a *App) Run(ctx context.Context) error {
	serving, end := a.drain.extend(ctx)
	defer end()
	// The whole manager runs in the extended context: policies are updated until the end.
	err := a.process.Run(serving)
	if closeErr := a.policies.Close(context.WithoutCancel(ctx)); closeErr != nil {
		err = errors.Join(err, closeErr)
	}
	return err
}
