package rig_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/demo/rig"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/feed"
)

const (
	sliceSecret = "kubeconfig-resourceslice-milan"
	// watchesOfTheFeed is how many watches a virtual kubelet has with a feed: one for each kind.
	watchesOfTheFeed = 9
	// retryAfter is how long a virtual kubelet does without a feed that failed.
	retryAfter = 30 * time.Second
)

// feedRig is a provider with a feed and its consumer, whose virtual kubelet is user in the provider.
type feedRig struct {
	*shell

	rome, milan *rig.Cluster
	audit, user string
	// kubelet is the pod of the virtual kubelet, remotePods are the UIDs of the remote pods.
	kubelet    *corev1.Pod
	remotePods map[string]types.UID
	// failed is when the virtual kubelet had found that the feed is away.
	failed time.Time
}

// TestLongTheFeedOfTheChart runs a provider with the chart's value provider.feed: webhook and virtual
// kubelet are processes with the rights of the chart. Its parts build on each other.
func TestLongTheFeedOfTheChart(t *testing.T) {
	t.Parallel()
	f := &feedRig{remotePods: map[string]types.UID{}}
	r, clusters := start(t, func(o *rig.StartOptions) { o.Audit, f.audit = true, rig.AuditLog(o.Dir, "milan") })
	f.rome, f.milan = r.Rome, r.Milan
	f.shell = installOn(t, r, clusters, func(cluster string, values map[string]any) {
		if cluster == "milan" {
			values["provider"] = map[string]any{"feed": true}
		}
	})
	f.ok(t, "peer --networking-disabled --kubeconfig @rome --remote-kubeconfig @milan")
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"the API server has the feed", f.isAvailable},
		{"a virtual kubelet has one watch for each kind", f.oneWatchPerKind},
		{"watches move to another replica in an orderly update", f.updated},
		{"each namespace is watched while the webhook is away", f.webhookKilled},
		{"new watches are those of the feed when the webhook is back", f.webhookBack},
		{"unpeering ends the watches", f.unpeered},
	} {
		f.transcript.Reset()
		if !t.Run(step.name, func(t *testing.T) {
			defer func() { t.Log("\n" + f.transcript.String()) }()
			step.run(t)
		}) {
			return
		}
	}
}

func (f *feedRig) isAvailable(t *testing.T) {
	service := &unstructured.Unstructured{}
	service.SetAPIVersion("apiregistration.k8s.io/v1")
	service.SetKind("APIService")
	eventually(t, "the APIService is available", func(t planetest.T) bool {
		require.NoError(t, f.milan.Get(t.Context(), client.ObjectKey{Name: feed.Version + "." + feed.Group}, service))
		conditions, _, err := unstructured.NestedSlice(service.Object, "status", "conditions")
		require.NoError(t, err)
		for _, condition := range conditions {
			if c, ok := condition.(map[string]any); ok && c["type"] == "Available" {
				require.Equal(t, "True", c["status"], c["message"])
				return true
			}
		}
		return false
	})
}

// begun are the watches of the virtual kubelet that have begun: those of the feed by resource, and
// others by remote namespace.
type begun struct{ feed, direct map[string]int }

// watches reads the audit log of the provider.
func (f *feedRig) watches(t planetest.T) begun {
	t.Helper()
	log, err := os.Open(f.audit)
	require.NoError(t, err)
	defer log.Close()
	b := begun{feed: map[string]int{}, direct: map[string]int{}}
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event struct {
			Stage, Verb string
			User        struct{ Username string }
			ObjectRef   struct{ APIGroup, Resource, Namespace string }
			Status      struct{ Code int } `json:"responseStatus"`
		}
		if json.Unmarshal(lines.Bytes(), &event) != nil || event.User.Username != f.user || event.Verb != "watch" ||
			event.Stage != "ResponseStarted" || event.Status.Code != http.StatusOK {
			continue // The last line may be incomplete.
		}
		if event.ObjectRef.APIGroup == feed.Group {
			b.feed[event.ObjectRef.Resource]++
		} else {
			b.direct[event.ObjectRef.Namespace]++
		}
	}
	require.NoError(t, lines.Err())
	return b
}

func sum(counts map[string]int) (total int) {
	for n := range maps.Values(counts) {
		total += n
	}
	return total
}

// offload creates an offloaded namespace with a pod that runs and a ConfigMap that is kept.
func (f *feedRig) offload(t *testing.T, name string) {
	t.Helper()
	require.NoError(t, f.rome.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	f.ok(t, "offload namespace "+name+" --pod-offloading-strategy Remote --kubeconfig @rome --timeout 1m")
	web := pod("web")
	web.Namespace = name
	require.NoError(t, f.rome.Create(t.Context(), web))
	require.NoError(t, f.rome.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "settings"}, Data: map[string]string{"key": "value"},
	}))
	eventually(t, "the pod of "+name+" runs", func(t planetest.T) bool {
		local, remote := &corev1.Pod{}, pods(t, f.milan, name+"-rome", nil)
		require.NoError(t, f.rome.Get(t.Context(), client.ObjectKeyFromObject(web), local))
		if len(remote) != 1 || local.Status.Phase != corev1.PodRunning || local.Status.PodIP != remote[0].Status.PodIP {
			return false
		}
		f.remotePods[name] = remote[0].UID
		return true
	})
	f.isKept(t, name)
}

// isKept changes a reflected ConfigMap in the provider, which the virtual kubelet sees by a watch only.
func (f *feedRig) isKept(t *testing.T, namespace string) {
	t.Helper()
	f.change(t, namespace)
	f.isRestored(t, namespace)
}

func (f *feedRig) change(t *testing.T, namespace string) {
	t.Helper()
	remote := &corev1.ConfigMap{}
	eventually(t, "the ConfigMap of "+namespace+" is changed", func(t planetest.T) bool {
		require.NoError(t, f.milan.Get(t.Context(), client.ObjectKey{Namespace: namespace + "-rome", Name: "settings"}, remote))
		remote.Data = map[string]string{"key": "changed"}
		return f.milan.Update(t.Context(), remote) == nil
	})
}

func (f *feedRig) isRestored(t *testing.T, namespace string) {
	t.Helper()
	eventually(t, "the ConfigMap of "+namespace+" is restored", func(t planetest.T) bool {
		remote := &corev1.ConfigMap{}
		require.NoError(t, f.milan.Get(t.Context(), client.ObjectKey{Namespace: namespace + "-rome", Name: "settings"}, remote))
		return remote.Data["key"] == "value"
	})
}

func (f *feedRig) oneWatchPerKind(t *testing.T) {
	own := &authenticationv1.SelfSubjectReview{}
	require.NoError(t, consumerOf(t, f.shell.rig, sliceSecret).Create(t.Context(), own))
	f.user = own.Status.UserInfo.Username
	list := pods(t, f.rome, tenantInRome, map[string]string{offloadingv1beta1.ComponentLabel: offloadingv1beta1.ComponentVirtualKubelet})
	require.Len(t, list, 1)
	f.kubelet = &list[0]

	f.offload(t, "shop")
	eventually(t, "each kind has a watch of the feed", func(t planetest.T) bool {
		return assert.Equal(t, watchesOfTheFeed, sum(f.watches(t).feed), "%v", f.watches(t))
	})
	f.offload(t, "mall")
	now := f.watches(t)
	assert.Equal(t, watchesOfTheFeed, sum(now.feed), "the second namespace needs no more watches: %v", now)
	assert.Empty(t, now.direct, "no namespace is watched")
	f.nothingRestarted(t)
}

// nothingRestarted checks that the virtual kubelet and all remote pods are those of before.
func (f *feedRig) nothingRestarted(t *testing.T) {
	t.Helper()
	for namespace, uid := range f.remotePods {
		remote := pods(t, f.milan, namespace+"-rome", nil)
		require.Len(t, remote, 1)
		assert.Equal(t, uid, remote[0].UID, "the remote pod of %s", namespace)
		assert.Zero(t, remote[0].Status.ContainerStatuses[0].RestartCount)
	}
	now := &corev1.Pod{}
	require.NoError(t, f.rome.Get(t.Context(), client.ObjectKeyFromObject(f.kubelet), now))
	assert.Equal(t, f.kubelet.UID, now.UID)
	assert.Zero(t, now.Status.ContainerStatuses[0].RestartCount, "the virtual kubelet has not restarted")
}

// patchWebhook patches the provider's webhook.
func (f *feedRig) patchWebhook(t *testing.T, patch string) {
	t.Helper()
	patchOwn(t, &rig.Rig{Rome: f.milan}, webhookName, patch)
}

func (f *feedRig) webhooks(t planetest.T) []corev1.Pod {
	t.Helper()
	return pods(t, f.milan, rig.Namespace, map[string]string{"app.kubernetes.io/name": webhookName})
}

// updated replaces the webhook in an orderly way. The watches continue at the next replica.
func (f *feedRig) updated(t *testing.T) {
	before, old := f.watches(t), f.webhooks(t)
	require.Len(t, old, 1)
	f.patchWebhook(t, `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"now"}}}}}`)
	eventually(t, "the webhook of before is gone", func(t planetest.T) bool {
		now := f.webhooks(t)
		return len(now) == 1 && now[0].UID != old[0].UID && ready(&now[0])
	})
	eventually(t, "each kind has another watch of the feed", func(t planetest.T) bool {
		return sum(f.watches(t).feed) >= sum(before.feed)+watchesOfTheFeed
	})
	f.isKept(t, "shop")
	f.isKept(t, "mall")
	assert.Empty(t, f.watches(t).direct, "no namespace is watched")
	f.nothingRestarted(t)
}

// webhookKilled kills the webhook, which does not run until webhookBack.
func (f *feedRig) webhookKilled(t *testing.T) {
	list := f.webhooks(t)
	require.Len(t, list, 1)
	var pid int
	_, err := fmt.Sscanf(list[0].Status.ContainerStatuses[0].ContainerID, "process://%d", &pid)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	f.change(t, "shop")
	f.patchWebhook(t, `{"spec":{"replicas":0}}`)
	eventually(t, "the webhook is away", func(t planetest.T) bool { return len(f.webhooks(t)) == 0 })
	f.change(t, "mall")
	f.isRestored(t, "shop")
	f.isRestored(t, "mall")
	eventually(t, "each kind is watched in each namespace", func(t planetest.T) bool {
		direct := f.watches(t).direct
		return direct["shop-rome"] >= watchesOfTheFeed && direct["mall-rome"] >= watchesOfTheFeed
	})
	f.failed = time.Now()
	f.nothingRestarted(t)
}

func (f *feedRig) webhookBack(t *testing.T) {
	f.patchWebhook(t, `{"spec":{"replicas":1}}`)
	require.NoError(t, f.milan.WaitForDeployments(t.Context(), rig.Namespace, quiet))
	f.isAvailable(t)
	select {
	case <-time.After(time.Until(f.failed.Add(retryAfter))): // The pause of the virtual kubelet is what is tested.
	case <-t.Context().Done():
	}
	before := f.watches(t)
	f.offload(t, "later")
	eventually(t, "the watches of another namespace are those of the feed", func(t planetest.T) bool {
		return sum(f.watches(t).feed) == sum(before.feed)+watchesOfTheFeed
	})
	assert.Zero(t, f.watches(t).direct["later-rome"], "the other namespace is not watched")
	f.isKept(t, "shop")
	f.isKept(t, "mall")
	f.nothingRestarted(t)
}

// unpeered watches with the credentials of the virtual kubelet until unpeering has taken its rights.
func (f *feedRig) unpeered(t *testing.T) {
	secret := secretOf(t, f.rome, tenantInRome, sliceSecret)
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["kubeconfig"])
	require.NoError(t, err)
	asConsumer, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	list := &corev1.ConfigMapList{}
	require.NoError(t, f.milan.List(t.Context(), list, client.InNamespace("shop-rome")))
	follow := func(t planetest.T) *http.Response {
		url := config.Host + feed.Path + "/configmaps?watch=true&resourceVersion=" + list.ResourceVersion
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		require.NoError(t, err)
		response, err := asConsumer.Do(request)
		require.NoError(t, err)
		return response
	}
	open := follow(t)
	defer open.Body.Close()
	require.Equal(t, http.StatusOK, open.StatusCode)
	ended := make(chan []string, 1)
	go func() {
		var events []string
		lines := bufio.NewScanner(open.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			events = append(events, lines.Text())
		}
		ended <- events
	}()
	for namespace := range f.remotePods {
		require.NoError(t, f.rome.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}))
	}
	f.ok(t, "unpeer --kubeconfig @rome --remote-kubeconfig @milan --delete-namespaces")
	var events []string
	eventually(t, "the watch ends", func(planetest.T) bool {
		select {
		case events = <-ended:
			return true
		default:
			return false
		}
	})
	require.NotEmpty(t, events)
	assert.True(t, slices.ContainsFunc(events, func(event string) bool { return strings.Contains(event, feed.NamespacesAnnotation) }))
	again := follow(t)
	defer again.Body.Close()
	assert.Equal(t, http.StatusForbidden, again.StatusCode)
}
