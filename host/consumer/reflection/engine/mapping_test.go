package engine

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

func mappedAs(phase offloadingv1beta1.MappingPhase, message string) func(remote string) offloadingv1beta1.RemoteNamespaceStatus {
	return func(remote string) offloadingv1beta1.RemoteNamespaceStatus {
		return offloadingv1beta1.RemoteNamespaceStatus{RemoteNamespace: remote, Phase: phase, Message: message}
	}
}

// mappingRow is a NamespaceMap, the namespaces that are reflected, and those that must be.
type mappingRow struct {
	desired  map[string]string
	current  map[string]offloadingv1beta1.RemoteNamespaceStatus
	followed map[string]string
	want     map[string]target
}

func checkMapping(t *testing.T, rows map[string]mappingRow) {
	t.Helper()
	for name, tc := range rows {
		t.Run(name, func(t *testing.T) {
			nm := namespaceMap(nil)
			nm.Spec.DesiredMapping, nm.Status.CurrentMapping = tc.desired, tc.current
			got, ok := mapping(t.Context(), []client.Object{nm}, tc.followed)
			require.True(t, ok)
			assert.Equal(t, tc.want, got)
		})
	}
}

// A malicious provider writes the status of the NamespaceMap: what it adds would send it the
// Secrets of any namespace.
func TestOnlyRequestedNamespacesAreMapped(t *testing.T) {
	accepted, ending := mappedAs(offloadingv1beta1.MappingAccepted, ""), mappedAs(offloadingv1beta1.MappingAccepted, "is being deleted")
	failing := mappedAs(offloadingv1beta1.MappingCreationLoopBackOff, "")
	checkMapping(t, map[string]mappingRow{
		"what was asked for is reflected": {
			desired: map[string]string{"shop": "shop-rome"}, current: map[string]offloadingv1beta1.RemoteNamespaceStatus{"shop": accepted("shop-rome")},
			want: map[string]target{"shop": {remote: "shop-rome"}},
		},
		"what was not asked for is not": {
			desired: map[string]string{"shop": "shop-rome"}, current: map[string]offloadingv1beta1.RemoteNamespaceStatus{"kube-system": accepted("loot")},
			want: map[string]target{},
		},
		"nor under another name": {
			desired: map[string]string{"shop": "shop-rome"}, current: map[string]offloadingv1beta1.RemoteNamespaceStatus{"shop": accepted("loot")},
			want: map[string]target{},
		},
		"a namespace that is withdrawn is so until the provider ends it": {
			current: map[string]offloadingv1beta1.RemoteNamespaceStatus{"shop": accepted("shop-rome")}, followed: map[string]string{"shop": "shop-rome"},
			want: map[string]target{"shop": {remote: "shop-rome", isWithdrawn: true}},
		},
		"so is one that is requested under another name": {
			desired: map[string]string{"shop": "shop-2"}, current: map[string]offloadingv1beta1.RemoteNamespaceStatus{"shop": accepted("shop-rome")},
			followed: map[string]string{"shop": "shop-rome"}, want: map[string]target{"shop": {remote: "shop-rome", isWithdrawn: true}},
		},
		"one that the provider deletes and that is no longer requested is withdrawn": {
			current: map[string]offloadingv1beta1.RemoteNamespaceStatus{"shop": ending("shop-rome")}, followed: map[string]string{"shop": "shop-rome"},
			want: map[string]target{"shop": {remote: "shop-rome", isWithdrawn: true}},
		},
		"a requested namespace that is not reported does not begin": {
			desired: map[string]string{"shop": "shop-rome"}, want: map[string]target{},
		},
		"nor does one continue under another name": {
			desired: map[string]string{"shop": "shop-2"}, followed: map[string]string{"shop": "shop-rome"}, want: map[string]target{},
		},
		"what is neither requested nor reported ends": {followed: map[string]string{"shop": "shop-rome"}, want: map[string]target{}},
		"what the provider has not created yet does not begin": {
			desired: map[string]string{"shop": "shop-rome"}, current: map[string]offloadingv1beta1.RemoteNamespaceStatus{"shop": failing("shop-rome")},
			want: map[string]target{},
		},
		"what fails and is no longer asked for ends": {
			current: map[string]offloadingv1beta1.RemoteNamespaceStatus{"shop": failing("shop-rome")}, followed: map[string]string{"shop": "shop-rome"},
			want: map[string]target{},
		},
		"an empty name is none": {
			current: map[string]offloadingv1beta1.RemoteNamespaceStatus{"shop": accepted("")}, want: map[string]target{},
		},
	})
}

// What runs in a namespace that is still requested goes on, whatever the provider reports of it.
func TestANamespaceThatIsRequestedContinues(t *testing.T) {
	accepted, ending := mappedAs(offloadingv1beta1.MappingAccepted, ""), mappedAs(offloadingv1beta1.MappingAccepted, "is being deleted")
	failing := mappedAs(offloadingv1beta1.MappingCreationLoopBackOff, "")
	checkMapping(t, map[string]mappingRow{
		"a namespace that the provider fails to restore continues": {
			desired: map[string]string{"shop": "shop-rome"}, current: map[string]offloadingv1beta1.RemoteNamespaceStatus{"shop": failing("shop-rome")},
			followed: map[string]string{"shop": "shop-rome"}, want: map[string]target{"shop": {remote: "shop-rome"}},
		},
		"a requested namespace that a restored provider does not report yet continues": {
			desired: map[string]string{"shop": "shop-rome"}, followed: map[string]string{"shop": "shop-rome"},
			want: map[string]target{"shop": {remote: "shop-rome"}},
		},
		"a requested namespace that the provider deletes continues, and gets nothing": {
			desired: map[string]string{"shop": "shop-rome"}, current: map[string]offloadingv1beta1.RemoteNamespaceStatus{"shop": ending("shop-rome")},
			want: map[string]target{"shop": {remote: "shop-rome", isEnding: true}},
		},
		"so does one of which the provider has forgotten that it accepted it": {
			desired:  map[string]string{"shop": "shop-rome"},
			current:  map[string]offloadingv1beta1.RemoteNamespaceStatus{"shop": {RemoteNamespace: "shop-rome", Phase: offloadingv1beta1.MappingTerminating}},
			followed: map[string]string{"shop": "shop-rome"}, want: map[string]target{"shop": {remote: "shop-rome", isEnding: true}},
		},
		"a requested namespace that the provider reports under another name continues": {
			desired: map[string]string{"shop": "shop-rome"}, current: map[string]offloadingv1beta1.RemoteNamespaceStatus{"shop": accepted("loot")},
			followed: map[string]string{"shop": "shop-rome"}, want: map[string]target{"shop": {remote: "shop-rome"}},
		},
		"also while that one ends": {
			desired:  map[string]string{"shop": "shop-rome"},
			current:  map[string]offloadingv1beta1.RemoteNamespaceStatus{"shop": {RemoteNamespace: "loot", Phase: offloadingv1beta1.MappingTerminating}},
			followed: map[string]string{"shop": "shop-rome"}, want: map[string]target{"shop": {remote: "shop-rome"}},
		},
	})
}

// What an unmapped namespace is: the provider accepted it after it was looked up, does not report it as it was
// requested, or nobody requests it.
func TestTheFactsOfAnUnmappedNamespace(t *testing.T) {
	accepted, failing := mappedAs(offloadingv1beta1.MappingAccepted, ""), mappedAs(offloadingv1beta1.MappingCreationLoopBackOff, "")
	none := offloadingv1beta1.RemoteNamespaceStatus{}
	for name, tc := range map[string]struct {
		desired     string
		current     offloadingv1beta1.RemoteNamespaceStatus
		fails, runs bool
	}{
		"accepted":           {desired: "shop-rome", current: accepted("shop-rome"), runs: true},
		"under another name": {desired: "shop-rome", current: accepted("loot"), fails: true},
		"under no name":      {desired: "shop-rome", current: accepted(""), fails: true},
		"not created":        {desired: "shop-rome", current: failing("shop-rome"), fails: true},
		"not reported":       {desired: "shop-rome", current: none, fails: true},
		"not requested":      {current: accepted("shop-rome")},
	} {
		t.Run(name, func(t *testing.T) {
			nm := namespaceMap(nil)
			nm.Spec.DesiredMapping, nm.Status.CurrentMapping = map[string]string{}, map[string]offloadingv1beta1.RemoteNamespaceStatus{}
			if tc.desired != "" {
				nm.Spec.DesiredMapping["shop"] = tc.desired
			}
			if tc.current != none {
				nm.Status.CurrentMapping["shop"] = tc.current
			}
			fails, starts := request([]client.Object{nm}, "shop")
			assert.Equal(t, tc.fails, fails, "fails")
			assert.Equal(t, tc.runs, starts, "starts")
		})
	}
}

// A provider that does not end a namespace gets nothing more of it: no new object, no change, and nothing
// that it deleted itself. Deletions go on.
func TestAWithdrawnNamespaceGetsNothingNew(t *testing.T) {
	local, remote := mapped(t, localMap("kept", map[string]string{"k": "1"}), localMap("deleted", map[string]string{"k": "1"}),
		localMap("lost", map[string]string{"k": "1"}))
	w := start(t, local, remote, maps{}, pods{decide: func(in Input) ([]Action, error) {
		if in.Facts.IsWithdrawn {
			return pods{}.Fallback(in)
		}
		return []Action{Keep{}}, nil
	}})
	for _, name := range []string{"kept", "deleted", "lost"} {
		w.remoteData(t, name, "1")
	}
	require.NoError(t, local.Create(t.Context(), localPod("shop", "web")))

	nm := &offloadingv1beta1.NamespaceMap{}
	require.NoError(t, local.Get(t.Context(), client.ObjectKey{Namespace: tenant, Name: provider}, nm))
	nm.Spec.DesiredMapping = nil
	require.NoError(t, local.Update(t.Context(), nm))
	require.Eventually(t, func() bool { return slices.Contains(w.journal.all(), "shop/web ReflectionDisabled") }, soon, tick,
		"its pods are decided again")

	sent := remote.count("patch ConfigMap")
	require.NoError(t, local.Create(t.Context(), localMap("new", map[string]string{"k": "1"})))
	changed, _ := get(t.Context(), local.WithWatch, "shop", "kept", &corev1.ConfigMap{})
	changed.Data = map[string]string{"k": "2"}
	require.NoError(t, local.Update(t.Context(), changed))
	lost, _ := get(t.Context(), remote.WithWatch, "shop-rome", "lost", &corev1.ConfigMap{})
	require.NoError(t, remote.Delete(t.Context(), lost))
	require.NoError(t, local.Delete(t.Context(), localMap("deleted", nil)))
	require.Eventually(t, func() bool {
		_, exists := get(t.Context(), remote.WithWatch, "shop-rome", "deleted", &corev1.ConfigMap{})
		return !exists
	}, soon, tick, "what is deleted here is deleted there")
	assert.Equal(t, sent, remote.count("patch ConfigMap"))

	// Offloaded again before the provider has ended it: what was held back is sent.
	w.remap(t, map[string]string{"shop": "shop-rome"})
	w.remoteData(t, "new", "1")
	w.remoteData(t, "kept", "2")
	w.remoteData(t, "lost", "1")
}

// While the provider deletes a remote namespace that is requested, nothing is sent to it. Once it is created
// again, everything is.
func TestANamespaceThatTheProviderDeletesGetsNothing(t *testing.T) {
	local, remote := mapped(t, localMap("settings", map[string]string{"k": "1"}))
	w := start(t, local, remote, maps{}, pods{decide: func(in Input) ([]Action, error) {
		switch {
		case in.Facts.IsEnding:
			return []Action{RecordEvent{Type: EventWarning, Reason: "Ending"}}, nil
		case in.Memory != nil:
			return []Action{RecordEvent{Type: EventNormal, Reason: "Remembered"}}, nil
		}
		return []Action{Remember{Value: true}, RecordEvent{Type: EventNormal, Reason: "Begins"}}, nil
	}})
	w.remoteData(t, "settings", "1")
	require.NoError(t, local.Create(t.Context(), localPod("shop", "web")))
	require.Eventually(t, func() bool { return slices.Contains(w.journal.all(), "shop/web Begins") }, soon, tick)

	report := func(status offloadingv1beta1.RemoteNamespaceStatus) {
		nm := &offloadingv1beta1.NamespaceMap{}
		require.NoError(t, local.Get(t.Context(), client.ObjectKey{Namespace: tenant, Name: provider}, nm))
		nm.Status.CurrentMapping["shop"] = status
		require.NoError(t, local.Status().Update(t.Context(), nm))
	}
	status := offloadingv1beta1.RemoteNamespaceStatus{RemoteNamespace: "shop-rome", Phase: offloadingv1beta1.MappingAccepted, Message: "is being deleted"}
	report(status)
	require.Eventually(t, func() bool { return slices.Contains(w.journal.all(), "shop/web Ending") }, soon, tick, "its pods are decided again")

	sent := remote.count("patch ConfigMap")
	lost, _ := get(t.Context(), remote.WithWatch, "shop-rome", "settings", &corev1.ConfigMap{})
	require.NoError(t, remote.Delete(t.Context(), lost))
	require.NoError(t, local.Create(t.Context(), localMap("new", map[string]string{"k": "1"})))
	require.NoError(t, local.Create(t.Context(), localPod("shop", "later")))
	require.Eventually(t, func() bool { return slices.Contains(w.journal.all(), "shop/later Ending") }, soon, tick)
	assert.Equal(t, sent, remote.count("patch ConfigMap"))

	status.Message = ""
	report(status)
	w.remoteData(t, "settings", "1")
	w.remoteData(t, "new", "1")
	require.Eventually(t, func() bool {
		all := w.journal.all()
		return slices.Contains(all[slices.Index(all, "shop/web Ending"):], "shop/web Remembered")
	}, soon, tick, "what is known of the pods stays")
}
