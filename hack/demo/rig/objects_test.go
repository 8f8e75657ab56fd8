package rig_test

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/demo/application"
	"github.com/longshore-dev/longshore/hack/demo/rig"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// applicationCompared compares the demo's application in both clusters.
func applicationCompared(t *testing.T, r *rig.Rig) { compareApplication(t, r, application.Namespace) }

// realApplications are public applications whose manifests the machine may have, with the strategy of
// their namespaces. Emojivoto says itself which of its pods run on virtual nodes.
var realApplications = map[string]offloadingv1beta1.PodOffloadingStrategyType{
	"emojivoto":       offloadingv1beta1.LocalAndRemotePodOffloadingStrategyType,
	"online-boutique": offloadingv1beta1.RemotePodOffloadingStrategyType,
}

// realApplicationsCompared runs real applications and compares them in the same way. Their images are
// not pulled: the workers of both clusters are simulated.
func realApplicationsCompared(t *testing.T, r *rig.Rig, rome *rig.Side) {
	require.NoError(t, rome.SimulateNodes(t.Context(), rig.StartOptions{SimulatedNodes: 1, PodsPerNode: "100"}))
	for name, strategy := range realApplications {
		t.Run(name, func(t *testing.T) {
			manifest, err := os.ReadFile(filepath.Join("../../../../shared/fixtures", name+".yaml"))
			if errors.Is(err, fs.ErrNotExist) {
				t.Skipf("the manifest of the application is not in this repository: %v", err)
			}
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			objects, err := application.Parse(manifest)
			require.NoError(t, err)
			require.NoError(t, r.Rome.Offload(ctx, name, strategy, quiet))
			require.NoError(t, r.Run(ctx, name, objects, quiet))
			compareApplication(t, r, name)
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
			require.NoError(t, r.Rome.Delete(ctx, namespace))
			eventually(t, "the namespace is gone in both clusters", func(t planetest.T) bool {
				return isGone(t, r, namespace) && apierrors.IsNotFound(r.Milan.Get(t.Context(), client.ObjectKey{Name: name + "-rome"}, &corev1.Namespace{}))
			})
		})
	}
	// Pods of Longshore, which are processes, must not land there.
	require.NoError(t, r.Rome.Delete(t.Context(), testplane.FakeNode("rome-worker-1", nil)))
}

// compareApplication compares all that is reflected of a namespace, by rules of its own and not by the
// code that builds remote objects.
func compareApplication(t *testing.T, r *rig.Rig, namespace string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, r.WaitForNeeds(ctx, namespace, quiet))
	require.NoError(t, r.Verify(ctx, namespace))
	c := &comparison{rig: r, local: namespace, remote: namespace + "-rome"}
	planetest.Until(t, func(t planetest.T) bool {
		c.services(t)
		c.configMaps(t)
		c.secrets(t)
		c.ingresses(t)
		c.endpointSlices(t)
		c.claims(t)
		c.pods(t)
		c.serviceAccounts(t)
		c.events(t)
		return true
	}, patience, every, "both clusters have the same objects")
}

// comparison compares the objects of a namespace in both clusters.
type comparison struct {
	rig           *rig.Rig
	local, remote string
}

// both lists the objects of a kind in both clusters, by name.
func both[T any, P interface {
	*T
	client.Object
}](t planetest.T, c *comparison, local, remote client.ObjectList, items func(client.ObjectList) []T) (locals, remotes map[string]P) {
	t.Helper()
	require.NoError(t, c.rig.Rome.List(t.Context(), local, client.InNamespace(c.local)))
	require.NoError(t, c.rig.Milan.List(t.Context(), remote, client.InNamespace(c.remote)))
	byName := func(list []T) map[string]P {
		found := map[string]P{}
		for i := range list {
			object := P(&list[i])
			found[object.GetName()] = object
		}
		return found
	}
	return byName(items(local)), byName(items(remote))
}

func names[T any](objects map[string]T) []string { return slices.Sorted(maps.Keys(objects)) }

// withoutOwnKeys returns the labels or annotations that are not of Longshore, which differ between the
// clusters by design.
func withoutOwnKeys(all map[string]string) map[string]string {
	kept := map[string]string{}
	for key, value := range all {
		if !strings.Contains(key, "liqo.io/") && !strings.Contains(key, "longshore.dev/") {
			kept[key] = value
		}
	}
	return kept
}

// sameMetadata compares labels and annotations: the provider has those of the consumer, and the origin.
func (c *comparison) sameMetadata(t planetest.T, local, remote client.Object) {
	t.Helper()
	require.Equal(t, withoutOwnKeys(local.GetLabels()), withoutOwnKeys(remote.GetLabels()), "labels of %s", local.GetName())
	annotations := withoutOwnKeys(remote.GetAnnotations())
	for key, value := range withoutOwnKeys(local.GetAnnotations()) {
		require.Equal(t, value, annotations[key], "annotation %s of %s", key, local.GetName())
	}
	require.Equal(t, "rome", remote.GetLabels()[offloadingv1beta1.OriginLabel], "origin of %s", local.GetName())
	require.Equal(t, "milan", remote.GetLabels()[offloadingv1beta1.DestinationLabel], "destination of %s", local.GetName())
}

func (c *comparison) services(t planetest.T) {
	locals, remotes := both(t, c, &corev1.ServiceList{}, &corev1.ServiceList{}, func(l client.ObjectList) []corev1.Service { return l.(*corev1.ServiceList).Items })
	require.NotEmpty(t, locals)
	require.Equal(t, names(locals), names(remotes))
	for name, local := range locals {
		c.sameMetadata(t, local, remotes[name])
		require.Equal(t, withoutAddresses(&local.Spec), withoutAddresses(&remotes[name].Spec), "spec of Service %s", name)
		require.NotEmpty(t, remotes[name].Spec.ClusterIP, "the provider gives Service %s an address, or it is headless", name)
	}
}

// withoutAddresses returns a spec without what each cluster allocates.
func withoutAddresses(spec *corev1.ServiceSpec) *corev1.ServiceSpec {
	spec = spec.DeepCopy()
	if spec.ClusterIP != corev1.ClusterIPNone {
		spec.ClusterIP = ""
	}
	spec.ClusterIPs, spec.IPFamilies, spec.HealthCheckNodePort = nil, nil, 0
	for i := range spec.Ports {
		spec.Ports[i].NodePort = 0
	}
	return spec
}

func (c *comparison) configMaps(t planetest.T) {
	locals, remotes := both(t, c, &corev1.ConfigMapList{}, &corev1.ConfigMapList{}, func(l client.ObjectList) []corev1.ConfigMap { return l.(*corev1.ConfigMapList).Items })
	const root = "kube-root-ca.crt"
	require.Contains(t, locals, root)
	own, ofRome := remotes[root], remotes[root+".rome"]
	require.NotNil(t, own)
	require.NotNil(t, ofRome, "the authority of rome has another name")
	require.NotEqual(t, own.Data, ofRome.Data, "each cluster has its authority")
	delete(remotes, root)
	delete(remotes, root+".rome")
	remotes[root] = ofRome
	require.Equal(t, names(locals), names(remotes))
	for name, local := range locals {
		if name != root { // The provider gets it without the annotation that describes it.
			c.sameMetadata(t, local, remotes[name])
		}
		require.Equal(t, local.Data, remotes[name].Data, "data of ConfigMap %s", name)
		require.Equal(t, local.BinaryData, remotes[name].BinaryData, "binary data of ConfigMap %s", name)
		require.Equal(t, local.Immutable, remotes[name].Immutable, "ConfigMap %s", name)
	}
}

func (c *comparison) secrets(t planetest.T) {
	locals, remotes := both(t, c, &corev1.SecretList{}, &corev1.SecretList{}, func(l client.ObjectList) []corev1.Secret { return l.(*corev1.SecretList).Items })
	for name := range remotes {
		if pod, isToken := strings.CutSuffix(name, "-token"); isToken {
			require.Equal(t, pod, remotes[name].Annotations["offloading.liqo.io/service-account-for-pod-name"], "Secret %s is the token of its pod", name)
			delete(remotes, name)
		}
	}
	require.Equal(t, names(locals), names(remotes))
	for name, local := range locals {
		c.sameMetadata(t, local, remotes[name])
		require.Equal(t, local.Data, remotes[name].Data, "data of Secret %s", name)
		require.Equal(t, local.Type, remotes[name].Type, "type of Secret %s", name)
		require.Equal(t, local.Immutable, remotes[name].Immutable, "Secret %s", name)
	}
}

func (c *comparison) ingresses(t planetest.T) {
	locals, remotes := both(t, c, &networkingv1.IngressList{}, &networkingv1.IngressList{}, func(l client.ObjectList) []networkingv1.Ingress { return l.(*networkingv1.IngressList).Items })
	require.Equal(t, names(locals), names(remotes))
	for name, local := range locals {
		c.sameMetadata(t, local, remotes[name])
		want := local.Spec.DeepCopy()
		want.IngressClassName = nil // The provider has its own.
		require.Equal(t, *want, remotes[name].Spec, "spec of Ingress %s", name)
	}
}

// endpointSlices compares the endpoints that are not pods of the provider, which are sent to it. Their
// addresses and those of its pods are in [rig.Rig.Needs].
func (c *comparison) endpointSlices(t planetest.T) {
	locals, remotes := both(t, c, &discoveryv1.EndpointSliceList{}, &discoveryv1.EndpointSliceList{}, func(l client.ObjectList) []discoveryv1.EndpointSlice {
		return l.(*discoveryv1.EndpointSliceList).Items
	})
	maps.DeleteFunc(remotes, func(_ string, own *discoveryv1.EndpointSlice) bool {
		return own.Labels[discoveryv1.LabelManagedBy] == "endpointslice-controller.k8s.io"
	})
	require.Equal(t, names(locals), names(remotes))
	for name, local := range locals {
		remote := remotes[name]
		require.Equal(t, local.Labels[discoveryv1.LabelServiceName], remote.Labels[discoveryv1.LabelServiceName], name)
		require.Equal(t, local.AddressType, remote.AddressType, name)
		require.Equal(t, local.Ports, remote.Ports, name)
		sent := slices.DeleteFunc(slices.Clone(local.Endpoints), func(e discoveryv1.Endpoint) bool { return ptr.Deref(e.NodeName, "") == rig.Node })
		require.Len(t, remote.Endpoints, len(sent), name)
		for i := range sent {
			want := sent[i].Conditions
			want.Ready = ptr.To(ptr.Deref(want.Ready, true))
			require.Equal(t, want, remote.Endpoints[i].Conditions, name)
			require.Equal(t, "rome", *remote.Endpoints[i].NodeName, name)
		}
	}
}

func (c *comparison) claims(t planetest.T) {
	locals, remotes := both(t, c, &corev1.PersistentVolumeClaimList{}, &corev1.PersistentVolumeClaimList{}, func(l client.ObjectList) []corev1.PersistentVolumeClaim {
		return l.(*corev1.PersistentVolumeClaimList).Items
	})
	require.Equal(t, names(locals), names(remotes))
	for name, local := range locals {
		remote := remotes[name]
		require.Equal(t, withoutOwnKeys(local.Labels), withoutOwnKeys(remote.Labels), "labels of claim %s", name)
		require.Equal(t, local.Spec.AccessModes, remote.Spec.AccessModes, "access modes of claim %s", name)
		require.Equal(t, local.Spec.Resources, remote.Spec.Resources, "size of claim %s", name)
		require.Equal(t, local.Spec.VolumeMode, remote.Spec.VolumeMode, "mode of claim %s", name)
		require.Equal(t, "liqo standard", *local.Spec.StorageClassName+" "+*remote.Spec.StorageClassName, "classes of claim %s", name)
		require.Equal(t, []corev1.PersistentVolumeClaimPhase{corev1.ClaimBound, corev1.ClaimBound}, []corev1.PersistentVolumeClaimPhase{local.Status.Phase, remote.Status.Phase}, name)
	}
}

func (c *comparison) pods(t planetest.T) {
	locals, remotes := both(t, c, &corev1.PodList{}, &corev1.PodList{}, func(l client.ObjectList) []corev1.Pod { return l.(*corev1.PodList).Items })
	maps.DeleteFunc(locals, func(_ string, local *corev1.Pod) bool { return local.Spec.NodeName != rig.Node })
	require.NotEmpty(t, locals)
	require.Equal(t, names(locals), names(remotes))
	for name, local := range locals {
		remote := remotes[name]
		c.sameMetadata(t, local, remote)
		sameContainers(t, name, local.Spec.InitContainers, remote.Spec.InitContainers)
		sameContainers(t, name, local.Spec.Containers, remote.Spec.Containers)
		sameVolumes(t, name, local.Spec.Volumes, remote.Spec.Volumes)
		require.Equal(t, local.Spec.RestartPolicy, remote.Spec.RestartPolicy, name)
		require.Equal(t, local.Spec.TerminationGracePeriodSeconds, remote.Spec.TerminationGracePeriodSeconds, name)
		require.Equal(t, local.Spec.SecurityContext, remote.Spec.SecurityContext, name)
		require.Equal(t, local.Spec.DNSPolicy, remote.Spec.DNSPolicy, name)
		require.Equal(t, local.Spec.Hostname+"."+local.Spec.Subdomain, remote.Spec.Hostname+"."+remote.Spec.Subdomain, name)
		require.Equal(t, "default", remote.Spec.ServiceAccountName, "%s has no service account of the provider but the default one", name)
		require.False(t, *remote.Spec.AutomountServiceAccountToken, "%s has no token of the provider", name)
	}
}

// sameContainers compares containers. Those of the provider have the address of the consumer's API
// server besides.
func sameContainers(t planetest.T, pod string, locals, remotes []corev1.Container) {
	t.Helper()
	require.Len(t, remotes, len(locals), pod)
	for i := range locals {
		remote := remotes[i].DeepCopy()
		require.GreaterOrEqual(t, len(remote.Env), len(locals[i].Env), pod)
		for _, added := range remote.Env[len(locals[i].Env):] {
			require.True(t, strings.HasPrefix(added.Name, "KUBERNETES_"), "container %s of %s has %s", remote.Name, pod, added.Name)
		}
		if remote.Env = remote.Env[:len(locals[i].Env)]; len(remote.Env) == 0 {
			remote.Env = nil
		}
		require.Equal(t, locals[i], *remote, pod)
	}
}

// sameVolumes compares volumes. Only projected ones have other sources in the provider.
func sameVolumes(t planetest.T, pod string, locals, remotes []corev1.Volume) {
	t.Helper()
	require.Len(t, remotes, len(locals), pod)
	for i := range locals {
		require.Equal(t, locals[i].Name, remotes[i].Name, pod)
		if locals[i].Projected == nil {
			require.Equal(t, locals[i], remotes[i], pod)
			continue
		}
		require.NotNil(t, remotes[i].Projected, pod)
		require.Len(t, remotes[i].Projected.Sources, len(locals[i].Projected.Sources), "sources of volume %s of %s", locals[i].Name, pod)
		for j, source := range remotes[i].Projected.Sources {
			require.Nil(t, source.ServiceAccountToken, "%s has no token of the provider", pod)
			if token := locals[i].Projected.Sources[j].ServiceAccountToken; token != nil {
				require.Equal(t, pod+"-token", source.Secret.Name, "the token of %s comes from its Secret", pod)
				require.Equal(t, token.Path, source.Secret.Items[0].Path, pod)
			}
		}
	}
}

// serviceAccounts checks that none leaves the consumer.
func (c *comparison) serviceAccounts(t planetest.T) {
	_, remotes := both(t, c, &corev1.ServiceAccountList{}, &corev1.ServiceAccountList{}, func(l client.ObjectList) []corev1.ServiceAccount {
		return l.(*corev1.ServiceAccountList).Items
	})
	assert.Equal(t, []string{"default"}, names(remotes))
}

// events checks that none of the consumer's own is sent.
func (c *comparison) events(t planetest.T) {
	locals, remotes := both(t, c, &corev1.EventList{}, &corev1.EventList{}, func(l client.ObjectList) []corev1.Event { return l.(*corev1.EventList).Items })
	own := 0
	for name, event := range locals {
		if event.Labels[offloadingv1beta1.OriginLabel] == "" {
			own++
			require.NotContains(t, remotes, name, "%s %s", event.Reason, event.Message)
		}
	}
	require.NotZero(t, own, "the consumer has events of its own, such as those of its scheduler")
}
