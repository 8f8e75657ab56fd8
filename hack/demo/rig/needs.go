package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/hack/demo/podlister/podlist"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

const (
	// PodLister is the command of the application's client of the Kubernetes API.
	PodLister = "podlister"

	podListerPort = "8080"
	askPodLister  = 10 * time.Second
)

// Need is something that pods need in the other cluster, as the demo's table shows it: what the
// consumer has, and what the provider has.
type Need struct {
	Kind, Name, Local, Remote string
}

// AllowAPIAccess changes the chart's values of the consumer so that offloaded pods use its API server.
func (r *Rig) AllowAPIAccess(cluster string, values map[string]any) {
	if cluster != r.Rome.Name {
		return
	}
	if kubelet, ok := values["virtualKubelet"].(map[string]any); ok {
		// Without an address there is no access, and the application's client is not ready.
		host, port, _ := net.SplitHostPort(strings.TrimPrefix(r.Rome.Config.Host, "https://"))
		kubelet["apiServerAccess"] = map[string]any{"host": host, "port": port}
	}
}

// Needs compares what the pods of an offloaded namespace need in both clusters, and returns a row for
// each object. The error names what differs:
//
//   - every ConfigMap and Secret that a remote pod names exists in the provider;
//   - an Ingress has the same rules in the provider;
//   - an EndpointSlice has the addresses of its pods that run in the provider, and all other endpoints are
//     in the provider, of a ShadowEndpointSlice;
//   - a claim is bound in both clusters, in the consumer to a volume of the virtual storage class;
//   - a client of the API server runs in the provider and lists the pods of the consumer, as its
//     service account there.
func (r *Rig) Needs(ctx context.Context, namespace string) ([]Need, error) {
	pairs, err := r.pairs(ctx, namespace)
	if err != nil {
		return nil, err
	}
	remoteNamespace, err := r.remoteNamespace(ctx, namespace)
	if err != nil {
		return nil, err
	}
	n := needs{rig: r, pairs: pairs, local: namespace, remote: remoteNamespace}
	err = errors.Join(n.sources(ctx), n.ingresses(ctx), n.endpoints(ctx), n.claims(ctx), n.clients(ctx))
	return n.rows, err
}

// needs collects the rows of a namespace.
type needs struct {
	rig           *Rig
	pairs         []pair
	local, remote string
	rows          []Need
}

func (n *needs) list(ctx context.Context, list client.ObjectList) error {
	if err := n.rig.Rome.List(ctx, list, client.InNamespace(n.local)); err != nil {
		return fmt.Errorf("listing what the pods of %q need: %w", n.local, err)
	}
	return nil
}

func (n *needs) get(ctx context.Context, name string, object client.Object) error {
	if err := n.rig.Milan.Get(ctx, client.ObjectKey{Namespace: n.remote, Name: name}, object); err != nil {
		return fmt.Errorf("%T %q is not in the provider: %w", object, name, err)
	}
	return nil
}

func (n *needs) sources(ctx context.Context) error {
	var errs []error
	for _, p := range n.pairs {
		if err := n.rig.checkSources(ctx, p); err != nil {
			errs = append(errs, fmt.Errorf("pod %q: %w", p.local.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (n *needs) ingresses(ctx context.Context) error {
	list := &networkingv1.IngressList{}
	if err := n.list(ctx, list); err != nil {
		return err
	}
	var errs []error
	for i := range list.Items {
		local, remote := &list.Items[i], &networkingv1.Ingress{}
		if err := n.get(ctx, local.Name, remote); err != nil {
			errs = append(errs, err)
			continue
		}
		if !equality.Semantic.DeepEqual(local.Spec.Rules, remote.Spec.Rules) {
			errs = append(errs, fmt.Errorf("ingress %q has other rules in the provider", local.Name))
		}
		n.rows = append(n.rows, Need{"Ingress", local.Name, hosts(local), hosts(remote)})
	}
	return errors.Join(errs...)
}

func hosts(ingress *networkingv1.Ingress) string {
	var names []string
	for _, rule := range ingress.Spec.Rules {
		names = append(names, rule.Host)
	}
	return strings.Join(names, ", ")
}

func (n *needs) endpoints(ctx context.Context) error {
	list := &discoveryv1.EndpointSliceList{}
	if err := n.list(ctx, list); err != nil {
		return err
	}
	var errs []error
	for i := range list.Items {
		errs = append(errs, n.slice(ctx, &list.Items[i]))
	}
	return errors.Join(errs...)
}

// slice compares an EndpointSlice of the consumer with the pods that run in the provider, and with the
// EndpointSlice that has all other endpoints there.
func (n *needs) slice(ctx context.Context, slice *discoveryv1.EndpointSlice) error {
	service := slice.Labels[discoveryv1.LabelServiceName]
	remote := &discoveryv1.EndpointSlice{}
	if err := n.get(ctx, slice.Name, remote); err != nil {
		return err
	}
	var remotes, others []discoveryv1.Endpoint
	pods := []string{}
	for i := range slice.Endpoints {
		p := n.pairOf(slice.Endpoints[i].TargetRef)
		if p == nil {
			others = append(others, slice.Endpoints[i])
			continue
		}
		remotes = append(remotes, slice.Endpoints[i])
		if p.remote != nil {
			pods = append(pods, p.remote.Status.PodIP)
		}
	}
	slices.Sort(pods)
	local, further, there := addresses(remotes), addresses(others), addresses(remote.Endpoints)
	var errs []error
	if remote.Labels[offloadingv1beta1.ManagedByLabel] != offloadingv1beta1.ManagedByShadowEndpointSlice {
		errs = append(errs, fmt.Errorf("EndpointSlice %q of the provider is not of a ShadowEndpointSlice", remote.Name))
	}
	if !slices.Equal(local, pods) {
		errs = append(errs, fmt.Errorf("service %q has endpoints %v in the consumer, and its pods in the provider have %v", service, local, pods))
	}
	if !slices.Equal(further, there) {
		errs = append(errs, fmt.Errorf("service %q has further endpoints %v in the consumer and %v in the provider", service, further, there))
	}
	shown := there
	if len(pods) > 0 {
		shown = append(shown, plural(len(pods), "pod"))
	}
	n.rows = append(n.rows, Need{"Endpoints", service, strings.Join(slices.Concat(further, local), ", "), strings.Join(shown, ", ")})
	return errors.Join(errs...)
}

// addresses are those of the ready endpoints, sorted.
func addresses(endpoints []discoveryv1.Endpoint) []string {
	found := []string{}
	for i := range endpoints {
		if ready := endpoints[i].Conditions.Ready; ready == nil || *ready {
			found = append(found, endpoints[i].Addresses...)
		}
	}
	slices.Sort(found)
	return found
}

// pairOf returns the pod that runs in the provider and is the target of an endpoint, or nil.
func (n *needs) pairOf(target *corev1.ObjectReference) *pair {
	for i := range n.pairs {
		if target != nil && target.UID == n.pairs[i].local.UID {
			return &n.pairs[i]
		}
	}
	return nil
}

func (n *needs) claims(ctx context.Context) error {
	list := &corev1.PersistentVolumeClaimList{}
	if err := n.list(ctx, list); err != nil {
		return err
	}
	var errs []error
	for i := range list.Items {
		local, remote := &list.Items[i], &corev1.PersistentVolumeClaim{}
		if err := n.get(ctx, local.Name, remote); err != nil {
			errs = append(errs, err)
			continue
		}
		for cluster, claim := range map[string]*corev1.PersistentVolumeClaim{"consumer": local, "provider": remote} {
			if claim.Status.Phase != corev1.ClaimBound {
				errs = append(errs, fmt.Errorf("claim %q of the %s is %q", claim.Name, cluster, claim.Status.Phase))
			}
		}
		n.rows = append(n.rows, Need{"Claim", local.Name, string(local.Status.Phase) + " (" + class(local) + ")", string(remote.Status.Phase) + " (" + remote.Spec.VolumeName + ")"})
	}
	return errors.Join(errs...)
}

func class(claim *corev1.PersistentVolumeClaim) string {
	if claim.Spec.StorageClassName == nil {
		return ""
	}
	return *claim.Spec.StorageClassName
}

// clients asks the pods that list pods what they see.
func (n *needs) clients(ctx context.Context) error {
	var want []string
	for _, p := range n.pairs {
		want = append(want, p.local.Name)
	}
	slices.Sort(want)
	var errs []error
	for _, p := range n.pairs {
		if p.remote == nil || !isPodLister(p.remote) {
			continue
		}
		list, err := askPods(ctx, net.JoinHostPort(p.remote.Status.PodIP, podListerPort))
		if err != nil {
			errs = append(errs, fmt.Errorf("pod %q: %w", p.local.Name, err))
			continue
		}
		account := "system:serviceaccount:" + p.local.Namespace + ":" + p.local.Spec.ServiceAccountName
		if list.User != account {
			errs = append(errs, fmt.Errorf("pod %q is known to the consumer's API server as %q, not as %q", p.local.Name, list.User, account))
		}
		slices.Sort(list.Pods)
		if !slices.Equal(list.Pods, want) {
			errs = append(errs, fmt.Errorf("pod %q lists %v instead of the pods of the consumer, %v", p.local.Name, list.Pods, want))
		}
		n.rows = append(n.rows, Need{"Token", p.local.Spec.ServiceAccountName, "lists " + plural(len(list.Pods), "pod"), p.remote.Spec.NodeName})
	}
	return errors.Join(errs...)
}

func isPodLister(pod *corev1.Pod) bool {
	command := pod.Spec.Containers[0].Command
	return len(command) > 0 && command[0] == PodLister
}

// askPods asks a client of the API server which pods it sees.
func askPods(ctx context.Context, address string) (list *podlist.List, err error) {
	ctx, cancel := context.WithTimeout(ctx, askPodLister)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("asking for its list: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking for its list: %w", err)
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("reading its list: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s: %s", response.Status, strings.TrimSpace(string(content)))
	}
	list = &podlist.List{}
	if err := json.Unmarshal(content, list); err != nil {
		return nil, fmt.Errorf("decoding its list: %w", err)
	}
	return list, nil
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// WaitForNeeds waits until the provider has all that the pods of a namespace need.
func (r *Rig) WaitForNeeds(ctx context.Context, namespace string, progress Progress) error {
	var last error
	err := r.Rome.eventually(ctx, func(ctx context.Context) (bool, error) {
		if _, last = r.Needs(ctx, namespace); last != nil {
			first, _, _ := strings.Cut(last.Error(), "\n")
			progress(first)
		}
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for what the pods of %q need: %w", namespace, errors.Join(err, last))
	}
	return nil
}
