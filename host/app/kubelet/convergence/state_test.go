package convergence_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/churn"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/internal/testkit/twoclusters"
)

const (
	soon = 2 * time.Minute
	tick = 100 * time.Millisecond
)

// TestMain also runs the virtual kubelets, each in a process of its own.
func TestMain(m *testing.M) { twoclusters.Main(m) }

// seed returns the value of LONGSHORE_TEST_SEED, or another one in each run.
func seed(t *testing.T) uint64 {
	t.Helper()
	value := uint64(time.Now().UnixNano())
	if given := os.Getenv("LONGSHORE_TEST_SEED"); given != "" {
		var err error
		value, err = strconv.ParseUint(given, 10, 64)
		require.NoError(t, err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("LONGSHORE_TEST_SEED=%d repeats the operations and the moments", value)
		}
	})
	return value
}

// watchRemotePods records remote pods until the test ends.
func watchRemotePods(t *testing.T, c *twoclusters.Clusters) *churn.RemoteUIDs {
	t.Helper()
	return churn.WatchRemotePods(t, c.Milan, remote.LocalPodUIDAnnotation)
}

// awaitPods waits until each local pod of a namespace runs, has a ShadowPod and a remote pod that
// runs, and there are no other ShadowPods and remote pods.
func awaitPods(t *testing.T, c *twoclusters.Clusters, namespace string) {
	t.Helper()
	planetest.Until(t, func(t planetest.T) bool {
		locals, shadows, pods := &corev1.PodList{}, &offloadingv1beta1.ShadowPodList{}, &corev1.PodList{}
		require.NoError(t, c.Rome.List(t.Context(), locals, client.InNamespace(namespace)))
		require.NoError(t, c.Milan.List(t.Context(), shadows, client.InNamespace(twoclusters.Remote(namespace))))
		require.NoError(t, c.Milan.List(t.Context(), pods, client.InNamespace(twoclusters.Remote(namespace))))
		uids, shadowUIDs := map[string]string{}, map[string]types.UID{}
		for i := range locals.Items {
			pod := &locals.Items[i]
			uids[pod.Name] = string(pod.UID)
			require.Nil(t, pod.DeletionTimestamp, pod.Name)
			require.Equal(t, corev1.PodRunning, pod.Status.Phase, "local pod %s", pod.Name)
		}
		require.Len(t, shadows.Items, len(uids), "ShadowPods")
		require.Len(t, pods.Items, len(uids), "remote pods")
		for i := range shadows.Items {
			shadow := &shadows.Items[i]
			shadowUIDs[shadow.Name] = shadow.UID
			require.Equal(t, uids[shadow.Name], shadow.Annotations[remote.LocalPodUIDAnnotation], shadow.Name)
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			require.Equal(t, uids[pod.Name], pod.Annotations[remote.LocalPodUIDAnnotation], pod.Name)
			require.Equal(t, shadowUIDs[pod.Name], metav1.GetControllerOf(pod).UID, pod.Name)
			require.Equal(t, corev1.PodRunning, pod.Status.Phase, "remote pod %s", pod.Name)
		}
		return true
	}, soon, tick, "each local pod of namespace %s runs in the provider", namespace)
}

// kinds are the kinds whose state is compared.
var kinds = []schema.GroupVersionKind{
	corev1.SchemeGroupVersion.WithKind("ConfigMapList"), corev1.SchemeGroupVersion.WithKind("SecretList"),
	corev1.SchemeGroupVersion.WithKind("ServiceList"), networkingv1.SchemeGroupVersion.WithKind("IngressList"), corev1.SchemeGroupVersion.WithKind("PodList"),
}

// tokenVolume matches the name of the volume that the API server adds to each pod.
var tokenVolume = regexp.MustCompile(`kube-api-access-\w+`)

// state returns the objects of a namespace in both clusters as JSON, by cluster, kind and name,
// without what differs between two runs: identities, addresses, times, and the nodes of the
// provider. The name of the namespace is replaced.
func state(t planetest.T, c *twoclusters.Clusters, namespace string) map[string]string {
	t.Helper()
	objects := map[string]string{}
	read := func(cluster string, reader client.Reader, namespace string, kind schema.GroupVersionKind) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		require.NoError(t, reader.List(t.Context(), list, client.InNamespace(namespace)))
		for i := range list.Items {
			object := &list.Items[i]
			normalize(object)
			raw, err := json.Marshal(object.Object)
			require.NoError(t, err)
			objects[cluster+" "+object.GetKind()+" "+object.GetName()] = string(raw)
		}
	}
	shadows := offloadingv1beta1.GroupVersion.WithKind("ShadowPodList")
	for _, kind := range kinds {
		read("rome", c.Rome, namespace, kind)
		read("milan", c.Milan, twoclusters.Remote(namespace), kind)
	}
	read("milan", c.Milan, twoclusters.Remote(namespace), shadows)
	for key, raw := range objects {
		objects[key] = tokenVolume.ReplaceAllString(strings.ReplaceAll(raw, namespace, "NAMESPACE"), "kube-api-access")
	}
	return objects
}

// normalize removes what differs between two runs.
func normalize(object *unstructured.Unstructured) {
	metadata, _ := object.Object["metadata"].(map[string]any)
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"} {
		delete(metadata, field)
	}
	owners, _ := metadata["ownerReferences"].([]any)
	for _, owner := range owners {
		if reference, ok := owner.(map[string]any); ok {
			delete(reference, "uid")
		}
	}
	if annotations, ok := metadata["annotations"].(map[string]any); ok {
		delete(annotations, remote.LocalPodUIDAnnotation)
	}
	if spec, ok := object.Object["spec"].(map[string]any); ok {
		for _, field := range []string{"clusterIP", "clusterIPs"} {
			delete(spec, field)
		}
		if object.GetKind() == "Pod" && spec["nodeName"] != twoclusters.NodeName {
			delete(spec, "nodeName")
		}
	}
	if object.GetKind() == "Pod" {
		normalizePodStatus(object)
	} else {
		delete(object.Object, "status")
	}
	if object.GetKind() == "ConfigMap" && strings.HasPrefix(object.GetName(), "kube-root-ca.crt") {
		delete(object.Object, "data")
	}
}

// normalizePodStatus keeps the phase, the conditions and the states of containers.
func normalizePodStatus(pod *unstructured.Unstructured) {
	status, _ := pod.Object["status"].(map[string]any)
	kept := map[string]any{"phase": status["phase"]}
	conditions, _ := status["conditions"].([]any)
	for _, each := range conditions {
		if condition, ok := each.(map[string]any); ok {
			kept["condition "+condition["type"].(string)] = condition["status"]
		}
	}
	containers, _ := status["containerStatuses"].([]any)
	for _, each := range containers {
		if container, ok := each.(map[string]any); ok {
			running, _, _ := unstructured.NestedMap(container, "state", "running")
			kept["container "+container["name"].(string)] = []any{container["ready"], container["restartCount"], running != nil}
		}
	}
	pod.Object["status"] = kept
}
