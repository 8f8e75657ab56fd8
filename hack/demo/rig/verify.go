package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/policy/view"
)

// Verify checks that the pods of an offloaded namespace really run where they seem to,
// and that the sandboxed policies decided:
//
//   - each local status is the status of the remote pod of this very local pod;
//   - every Service of the namespace exists on the provider;
//   - what pods need is in both clusters, as [Rig.Needs] says;
//   - every decision of a default policy names the module that was built from this tree,
//     by digest, and every other one a module that its policy reports.
func (r *Rig) Verify(ctx context.Context, namespace string) error {
	provenance, err := r.Rome.provenance(ctx)
	if err != nil {
		return err
	}
	pairs, err := r.pairs(ctx, namespace)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range pairs {
		for _, check := range []error{p.checkStatus(), p.checkDecisions(provenance)} {
			if check != nil {
				errs = append(errs, fmt.Errorf("pod %s/%s: %w", namespace, p.local.Name, check))
			}
		}
	}
	if len(pairs) == 0 {
		errs = append(errs, fmt.Errorf("namespace %q has no pods", namespace))
	}
	_, err = r.Needs(ctx, namespace)
	errs = append(errs, r.checkServices(ctx, namespace), err)
	return errors.Join(errs...)
}

func (r *Rig) remoteNamespace(ctx context.Context, namespace string) (string, error) {
	nso, err := r.offloading(ctx, namespace)
	if err != nil {
		return "", err
	}
	return nso.Status.RemoteNamespaceName, nil
}

func (r *Rig) offloading(ctx context.Context, namespace string) (*offloadingv1beta1.NamespaceOffloading, error) {
	nso := &offloadingv1beta1.NamespaceOffloading{}
	err := r.Rome.Get(ctx, client.ObjectKey{Namespace: namespace, Name: offloadingv1beta1.NamespaceOffloadingName}, nso)
	if err != nil {
		return nil, fmt.Errorf("reading the NamespaceOffloading of %q: %w", namespace, err)
	}
	return nso, nil
}

// checkStatus compares what only the remote pod's own status can hold: addresses, and
// the states of the containers with their start times.
func (p pair) checkStatus() error {
	if p.remote == nil {
		return errors.New("nothing runs for it on the provider")
	}
	if uid := p.remote.Annotations[remote.LocalPodUIDAnnotation]; uid != string(p.local.UID) {
		return fmt.Errorf("the remote pod was made for local UID %q, not %q", uid, p.local.UID)
	}
	address := p.remote.Status.PodIP
	if net.ParseIP(address).IsLoopback() {
		address = "" // A process of this machine. The consumer leaves loopback addresses out: no endpoint may have one.
	}
	if p.remote.Status.PodIP == "" || p.local.Status.PodIP != address {
		return fmt.Errorf("its address is %q, that of remote pod %s is %q", p.local.Status.PodIP, p.remote.UID, p.remote.Status.PodIP)
	}
	if !p.local.Status.StartTime.Equal(p.remote.Status.StartTime) {
		return fmt.Errorf("its start time is not that of remote pod %s", p.remote.UID)
	}
	if len(p.remote.Status.ContainerStatuses) == 0 || !sameContainers(p.local.Status.ContainerStatuses, p.remote.Status.ContainerStatuses) {
		return fmt.Errorf("its container statuses are not those of remote pod %s", p.remote.UID)
	}
	return nil
}

// sameContainers compares container statuses but for the restarts: the local pod counts the
// replacements of its remote pod among them, and so may have had more.
func sameContainers(local, remote []corev1.ContainerStatus) bool {
	if len(local) != len(remote) {
		return false
	}
	for i := range local {
		counted := remote[i]
		counted.RestartCount = max(counted.RestartCount, local[i].RestartCount)
		if !equality.Semantic.DeepEqual(local[i], counted) {
			return false
		}
	}
	return true
}

// checkSources looks up every object that the remote pod takes data from.
func (r *Rig) checkSources(ctx context.Context, p pair) error {
	if p.remote == nil {
		return nil
	}
	var errs []error
	for _, source := range sourcesOf(&p.remote.Spec) {
		err := r.Milan.Get(ctx, client.ObjectKey{Namespace: p.remote.Namespace, Name: source.name}, source.empty)
		if err != nil {
			errs = append(errs, fmt.Errorf("%T %q is not on the provider: %w", source.empty, source.name, err))
		}
	}
	return errors.Join(errs...)
}

// checkServices looks up every Service of a namespace on the provider.
func (r *Rig) checkServices(ctx context.Context, namespace string) error {
	remoteNamespace, err := r.remoteNamespace(ctx, namespace)
	if err != nil {
		return err
	}
	list := &corev1.ServiceList{}
	if err := r.Rome.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("listing the Services of %q: %w", namespace, err)
	}
	var errs []error
	for i := range list.Items {
		name := list.Items[i].Name
		if err := r.Milan.Get(ctx, client.ObjectKey{Namespace: remoteNamespace, Name: name}, &corev1.Service{}); err != nil {
			errs = append(errs, fmt.Errorf("service %q is not on the provider: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

type source struct {
	name  string
	empty client.Object
}

type sources []source

func (s *sources) configMap(name string) { *s = append(*s, source{name, &corev1.ConfigMap{}}) }

func (s *sources) secret(name string) { *s = append(*s, source{name, &corev1.Secret{}}) }

func sourcesOf(spec *corev1.PodSpec) sources {
	var found sources
	found.volumes(spec)
	found.environment(spec)
	return found
}

func (s *sources) volumes(spec *corev1.PodSpec) {
	for i := range spec.Volumes {
		volume := &spec.Volumes[i]
		if volume.ConfigMap != nil {
			s.configMap(volume.ConfigMap.Name)
		}
		if volume.Secret != nil {
			s.secret(volume.Secret.SecretName)
		}
		if volume.Projected == nil {
			continue
		}
		for _, projection := range volume.Projected.Sources {
			if projection.ConfigMap != nil {
				s.configMap(projection.ConfigMap.Name)
			}
			if projection.Secret != nil {
				s.secret(projection.Secret.Name)
			}
		}
	}
}

func (s *sources) environment(spec *corev1.PodSpec) {
	for _, container := range slices.Concat(spec.InitContainers, spec.Containers) {
		for _, from := range container.EnvFrom {
			if from.ConfigMapRef != nil {
				s.configMap(from.ConfigMapRef.Name)
			}
			if from.SecretRef != nil {
				s.secret(from.SecretRef.Name)
			}
		}
		for _, env := range container.Env {
			if env.ValueFrom != nil && env.ValueFrom.ConfigMapKeyRef != nil {
				s.configMap(env.ValueFrom.ConfigMapKeyRef.Name)
			}
			if env.ValueFrom != nil && env.ValueFrom.SecretKeyRef != nil {
				s.secret(env.ValueFrom.SecretKeyRef.Name)
			}
		}
	}
}

// decisions are those at admission and those at offloading.
func (p pair) decisions() ([]view.Entry, error) {
	decisions, err := view.DecodeDecisions(p.local.Annotations[policyv1alpha1.DecisionsAnnotation])
	if err != nil || p.remote == nil {
		return decisions, err
	}
	there, err := view.DecodeDecisions(p.remote.Annotations[policyv1alpha1.DecisionsAnnotation])
	return append(decisions, there...), err
}

func (p pair) checkDecisions(provenance *provenance) error {
	decisions, err := p.decisions()
	if err != nil {
		return err
	}
	return provenance.check(p.local.CreationTimestamp.Time, decisions)
}

func policyNames(decisions []view.Entry) []string {
	var names []string
	for _, d := range decisions {
		name := strings.TrimPrefix(d.Policy, defaultPrefix)
		if d.Policy != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
