package e2e_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
)

func (w *world) withdraw(t *testing.T) {
	w.rome.kubectl(t, "-n", "default", "delete", "pod", "client", "--grace-period=1")
	w.rome.kubectl(t, "delete", "namespace", "shop", "mixed", "--timeout=2m")
	planetest.Until(t, func(t planetest.T) bool {
		return assert.Empty(t, w.milan.kubectl(t, "get", "namespaces", "-o", "name", "--field-selector=metadata.name=shop-rome"))
	}, soon, poll, "the provider's namespaces are deleted")
	w.rome.kubectl(t, "delete", "storageclass", "folders")
	w.milan.kubectl(t, "delete", "storageclass", "folders")
}

func (w *world) unpeer(t *testing.T) {
	t.Log(longshorectl(t, "unpeer", "--delete-namespaces", "--kubeconfig", w.rome.node.Kubeconfig(), "--remote-kubeconfig", w.milan.node.Kubeconfig()))
}

func (w *world) uninstall(t *testing.T) {
	w.rome.uninstall(t)
	w.milan.uninstall(t)
}

// objects returns all objects of a cluster, by kind and name, without what changes when nothing
// happens: events, measured values, status, versions, and when leases are renewed.
func (c *cluster) objects(t planetest.T) map[string]string {
	t.Helper()
	lists, err := c.kube.Discovery().ServerPreferredResources()
	require.NoError(t, err)
	reader, err := dynamic.NewForConfig(c.rest)
	require.NoError(t, err)
	objects := map[string]string{}
	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		require.NoError(t, err)
		for _, resource := range list.APIResources {
			isMeasured := group.Group == "metrics.k8s.io" || resource.Name == "componentstatuses"
			if !slices.Contains(resource.Verbs, "list") || resource.Name == "events" || isMeasured {
				continue
			}
			found, err := reader.Resource(group.WithResource(resource.Name)).List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err, "%s", resource.Name)
			for i := range found.Items {
				object := &found.Items[i]
				key := fmt.Sprintf("%s %s/%s", resource.Name, object.GetNamespace(), object.GetName())
				objects[key] = comparable(t, object)
			}
		}
	}
	return objects
}

func comparable(t planetest.T, object *unstructured.Unstructured) string {
	t.Helper()
	delete(object.Object, "status")
	for _, field := range []string{"managedFields", "resourceVersion", "generation"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	// It is another one after the node was not ready for a time.
	unstructured.RemoveNestedField(object.Object, "metadata", "annotations", corev1.EndpointsLastChangeTriggerTime)
	if object.GetKind() == "Lease" {
		return "" // The API server makes its own anew when it starts.
	}
	content, err := json.MarshalIndent(object.Object, "", "  ")
	require.NoError(t, err)
	return string(content)
}

// remaining are the objects that are left on purpose: the kinds, because their deletion would
// delete all objects of them, the namespace that Helm created, with the identity of the cluster
// and what else the components keep there, the namespace for the data of users, and certificate
// requests, which Kubernetes deletes an hour after they were signed.
var remaining = regexp.MustCompile(`^(customresourcedefinitions /\S+\.(liqo\.io|longshore\.dev)` +
	`|apiservices /\S+\.(liqo\.io|longshore\.dev)` +
	`|namespaces /longshore|serviceaccounts longshore/default|configmaps longshore/kube-root-ca\.crt` +
	`|secrets longshore/(authentication-keys|longshore-webhook-certs)|leases longshore/longshore-manager` +
	`|namespaces /liqo-storage|serviceaccounts liqo-storage/default|configmaps liqo-storage/kube-root-ca\.crt` +
	`|certificatesigningrequests /\S+)$`)

// assertUnchanged fails unless the cluster has the objects that it had before.
func assertUnchanged(t *testing.T, c *cluster, before map[string]string) {
	t.Helper()
	planetest.Until(t, func(t planetest.T) bool {
		now := c.objects(t)
		var differences []string
		for key := range now {
			if _, ok := before[key]; !ok && !remaining.MatchString(key) {
				differences = append(differences, "new: "+key+"\n"+now[key])
			}
		}
		for key := range before {
			if now[key] != before[key] {
				differences = append(differences, "before: "+key+"\n"+before[key]+"\nnow:\n"+now[key])
			}
		}
		slices.Sort(differences)
		return assert.Empty(t, strings.Join(differences, "\n"), "objects of %s", c.name)
	}, soon, 10*poll)
}
