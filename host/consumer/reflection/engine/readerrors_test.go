package engine

import (
	"errors"
	"fmt"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// forbidden is what an API server says that does not let a kind be read.
func forbidden(resource string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", fmt.Errorf("User %q cannot list resource %q", home, resource))
}

func (w *env) awaitShadow(t *testing.T, namespace, name string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, ok := get(t.Context(), w.remote.WithWatch, namespace, name, &offloadingv1beta1.ShadowPod{})
		return ok
	}, soon, tick, "ShadowPod %s/%s exists", namespace, name)
}

func TestAnUnreadableNamespaceBlocksNoOther(t *testing.T) {
	local := newCluster(namespaceMap(map[string]string{"shop": "shop-rome", "bank": "bank-rome"}),
		localPod("shop", "web"), localPod("bank", "db"), localPod("elsewhere", "job"))
	remote := newCluster()
	remote.deny("bank-rome", forbidden("shadowpods"))
	recorded := &messages{}
	w := startWith(t, local, remote, func(o *Options) { o.Recorder = func(string) Recorder { return recorded } }, pods{})

	w.awaitShadow(t, "shop-rome", "web")
	waits := "Warning FailedReflection Reflection to cluster milan waits: the operator of that cluster must let cluster rome read namespace bank-rome there: " +
		`shadowpods is forbidden: User "rome" cannot list resource "shadowpods"`
	notOffloaded := "Warning ReflectionDisabled not offloaded"
	require.Eventually(t, func() bool { return len(recorded.all()) == 2 }, soon, tick, "pods of the unreadable namespace, and of one that is not offloaded")
	assert.ElementsMatch(t, []string{notOffloaded, waits}, recorded.all())

	// Later pods get the event as well, and all are reflected once the namespace is readable.
	require.NoError(t, local.Create(t.Context(), localPod("bank", "late")))
	require.Eventually(t, func() bool { return len(recorded.all()) == 3 }, soon, tick)
	assert.Zero(t, local.count("patch/status Pod"), "no pod is touched")
	remote.deny("bank-rome", nil)
	w.awaitShadow(t, "bank-rome", "db")
	w.awaitShadow(t, "bank-rome", "late")
	assert.ElementsMatch(t, []string{notOffloaded, waits, waits}, recorded.all(), "recorded once")
}

func TestWhichReadErrorsAreRecorded(t *testing.T) {
	shop := []string{"shop/settings FailedReflection"}
	for name, tc := range map[string]struct {
		fault error
		want  []string
	}{
		"the provider refuses":          {forbidden("configmaps"), shop},
		"the provider does not know it": {apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, ""), shop},
		"the provider is away":          {&url.Error{Op: "Get", Err: errors.New("connection refused")}, nil},
		"an answer ends early":          {errors.New("unexpected error when reading response body. Please retry. Original error: EOF"), nil},
		"an object cannot be decoded":   {errors.New("json: cannot unmarshal number 1e99 into Go struct field"), shop},
		"the provider is busy":          {apierrors.NewTooManyRequests("busy", 0), nil},
		"the provider has a bad moment": {apierrors.NewInternalError(errors.New("etcd")), nil},
	} {
		t.Run(name, func(t *testing.T) {
			skipped := localMap("skipped", map[string]string{"k": "1"})
			skipped.Annotations = map[string]string{offloadingv1beta1.SkipReflectionAnnotation: "true"}
			local, remote := mapped(t, localMap("settings", map[string]string{"k": "1"}), skipped)
			remote.deny("shop-rome", tc.fault)
			w := start(t, local, remote, maps{})
			reads := func() int { return remote.count("list ConfigMapList") + remote.count("watch ConfigMapList") }
			require.Eventually(t, func() bool { return reads() > 1 && len(w.journal.all()) == len(tc.want) }, soon, tick)
			remote.deny("shop-rome", nil)
			w.remoteData(t, "settings", "1")
			want := append([]string{"shop/skipped ReflectionDisabled"}, tc.want...)
			require.Eventually(t, func() bool { return len(w.journal.all()) == len(want) }, soon, tick)
			assert.ElementsMatch(t, want, w.journal.all())
		})
	}
}

func TestAnUnreadableLocalNamespaceBlocksNoOther(t *testing.T) {
	local, remote := mapped(t, localPod("shop", "web"))
	local.deny("shop", forbidden("configmaps"))
	w := start(t, local, remote, perNamespace{}, pods{})
	require.NoError(t, local.Create(t.Context(), localMap("settings", map[string]string{"k": "1"})))
	w.awaitShadow(t, "shop-rome", "web")
	require.Eventually(t, func() bool { return local.count("list ConfigMapList") > 0 }, soon, tick)
	local.deny("shop", nil)
	w.remoteData(t, "settings", "1")
	assert.Empty(t, w.journal.all(), "objects that cannot be read get no event")
}

func TestTheFirstReadErrorIsRecorded(t *testing.T) {
	e := &readErrors{}
	assert.True(t, e.set(1, "pods"))
	assert.False(t, e.set(1, "pods"), "the same again")
	assert.True(t, e.set(0, "shadowpods"))
	assert.False(t, e.set(1, "pods"), "the first one is still there")
	assert.Equal(t, "shadowpods", e.cause())
	assert.True(t, e.set(0, ""), "what is left")
	assert.False(t, e.set(1, ""))
	assert.Empty(t, e.cause())
}
