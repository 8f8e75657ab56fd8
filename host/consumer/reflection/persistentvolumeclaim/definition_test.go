package persistentvolumeclaim

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

var now = time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)

func local(state string, changes ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "data-db-0", UID: "u1", CreationTimestamp: metav1.NewTime(now.Add(-8 * time.Second)),
		Labels: map[string]string{"storage.longshore.dev/cluster": "milan", "storage.longshore.dev/remote-claim": state},
		Annotations: map[string]string{
			"volume.kubernetes.io/selected-node": "milan-node", "storage.longshore.dev/reclaim-policy": "Delete",
		},
	}}
	for _, change := range changes {
		change(claim)
	}
	return claim
}

func remoteClaim(changes ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop-rome", Name: "data-db-0", UID: "r1",
		Labels:      map[string]string{"offloading.liqo.io/origin": "rome", "offloading.liqo.io/destination": "milan"},
		Annotations: map[string]string{"storage.longshore.dev/claim-uid": "u1", "storage.longshore.dev/reclaim-policy": "Delete"},
	}}
	for _, change := range changes {
		change(claim)
	}
	return claim
}

func terminating(claim *corev1.PersistentVolumeClaim) {
	claim.DeletionTimestamp = &metav1.Time{Time: now}
}

func ofEarlierClaim(claim *corev1.PersistentVolumeClaim) {
	claim.Annotations["storage.longshore.dev/claim-uid"] = "u0"
}

func input(localClaim, existing *corev1.PersistentVolumeClaim) engine.Input {
	in := engine.Input{
		Key:   engine.Key{Namespace: "shop", Name: "data-db-0"},
		Facts: engine.Facts{HomeClusterID: "rome", ProviderClusterID: "milan", NodeName: "milan-node", RemoteNamespace: "shop-rome", Now: now},
	}
	if localClaim != nil {
		in.Local, in.Labels, in.Annotations = localClaim, localClaim.Labels, localClaim.Annotations
	}
	if existing != nil {
		in.Remote = existing
	}
	return in
}

// decide returns the actions of a decision, without what is remembered.
func decide(t *testing.T, in engine.Input) (actions []engine.Action, memory any) {
	t.Helper()
	d := New(Options{Origin: remote.Origin{HomeClusterID: "rome", ProviderClusterID: "milan", NodeName: "milan-node"}, Class: "fast"})
	all, err := d.Decide(in)
	require.NoError(t, err)
	memory = in.Memory
	for _, action := range all {
		if remember, ok := action.(engine.Remember); ok {
			memory = remember.Value
			continue
		}
		actions = append(actions, action)
	}
	return actions, memory
}

func TestDecisions(t *testing.T) {
	created, lost, deleted := report("Created")[0], report("Lost")[0], report("Deleted")[0]
	elsewhere := func(c *corev1.PersistentVolumeClaim) {
		c.Annotations["volume.kubernetes.io/selected-node"] = "milan-node-2"
	}
	for name, tc := range map[string]struct {
		local, remote *corev1.PersistentVolumeClaim
		// want is the first action; nil stands for engine.Keep, an event with the reason event. An event
		// that follows another action is in event, too.
		want  engine.Action
		event string
	}{
		"a requested claim that exists":                        {local("Requested"), remoteClaim(), created, ""},
		"a requested claim of another virtual node":            {local("Requested", elsewhere), nil, nil, ""},
		"the claim of another virtual node exists":             {local("Requested", elsewhere), remoteClaim(), created, ""},
		"the remote claim of an earlier claim is retained":     {local("Requested"), remoteClaim(ofEarlierClaim), nil, "FailedReflection"},
		"the remote claim of an earlier claim is deleted":      {local("Requested"), remoteClaim(ofEarlierClaim, terminating), nil, ""},
		"the remote claim is not managed by reflection":        {local("Requested"), remoteClaim(func(c *corev1.PersistentVolumeClaim) { c.Labels = nil }), nil, "FailedReflection"},
		"a claim that is complete":                             {local("Created"), remoteClaim(), nil, ""},
		"a remote claim that was deleted is not created again": {local("Created"), nil, lost, "RemoteClaimLost"},
		"it is reported once":                                  {local("Lost"), nil, nil, "RemoteClaimLost"},
		"a provider that was restored has it again":            {local("Lost"), remoteClaim(), created, ""},
		"one that is being deleted":                            {local("Created"), remoteClaim(terminating), lost, "RemoteClaimLost"},
		"a new claim that uses retained data":                  {local("Created"), remoteClaim(ofEarlierClaim), engine.PatchRemote{Annotations: map[string]*string{"storage.longshore.dev/claim-uid": ptr.To("u1")}}, ""},
		"another reclaim policy": {local("Created", func(c *corev1.PersistentVolumeClaim) {
			c.Annotations["storage.longshore.dev/reclaim-policy"] = "Retain"
		}), remoteClaim(), engine.PatchRemote{Annotations: map[string]*string{"storage.longshore.dev/reclaim-policy": ptr.To("Retain")}}, ""},
		"a deletion is requested":                    {local("Deleting"), remoteClaim(), engine.DeleteRemote{}, ""},
		"a deletion is requested and under way":      {local("Deleting"), remoteClaim(terminating), nil, ""},
		"the remote claim is gone":                   {local("Deleting"), nil, deleted, ""},
		"there is only that of an earlier claim":     {local("Deleting"), remoteClaim(ofEarlierClaim), deleted, ""},
		"a claim with data of another provider":      {local("Deleting", func(c *corev1.PersistentVolumeClaim) { c.Labels["storage.longshore.dev/cluster"] = "oslo" }), remoteClaim(), nil, ""},
		"a claim without labels":                     {local("", func(c *corev1.PersistentVolumeClaim) { c.Labels = nil }), nil, nil, ""},
		"the local claim is gone, the data stays":    {nil, remoteClaim(), nil, ""},
		"a deletion that was done is not done again": {local("Deleted"), remoteClaim(), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			actions, _ := decide(t, input(tc.local, tc.remote))
			if tc.want != nil {
				assert.Equal(t, tc.want, actions[0])
				actions = actions[1:]
			}
			if tc.event == "" {
				assert.LessOrEqual(t, len(actions), 1)
				for _, action := range actions {
					assert.IsType(t, engine.Keep{}, action)
				}
				return
			}
			require.Len(t, actions, 1)
			event, ok := actions[0].(engine.RecordEvent)
			require.True(t, ok, "%T", actions[0])
			assert.Equal(t, tc.event, event.Reason)
			assert.Equal(t, engine.EventWarning, event.Type)
		})
	}
}

func TestTheEventOfALostClaimSaysWhetherItsDataIsGone(t *testing.T) {
	for want, remote := range map[string]*corev1.PersistentVolumeClaim{
		"milan was deleted there, and its data is lost.":               nil,
		"milan is being deleted there: its data is lost once no pod u": remoteClaim(terminating),
	} {
		actions, _ := decide(t, input(local("Lost"), remote))
		require.Len(t, actions, 1)
		event, ok := actions[0].(engine.RecordEvent)
		require.True(t, ok)
		assert.Contains(t, event.Message, want)
	}
}

func TestARequestedClaimIsSent(t *testing.T) {
	actions, _ := decide(t, input(local("Requested"), nil))
	require.Len(t, actions, 2)
	apply, ok := actions[0].(engine.Apply)
	require.True(t, ok)
	sent, err := json.Marshal(apply.Config)
	require.NoError(t, err)
	assert.Contains(t, string(sent), `"storageClassName":"fast"`)
	assert.Contains(t, string(sent), `"namespace":"shop-rome"`)
	assert.Equal(t, engine.Requeue{After: 2 * time.Second, Reason: "the remote claim is reported when it exists"}, actions[1])
}

// Another writer of an annotation that decides about the data is slowed down, not fought.
func TestAnnotationsThatAnotherWriterChangesAreRestoredLessAndLess(t *testing.T) {
	in := input(local("Created"), remoteClaim(ofEarlierClaim))
	patches, events := 0, 0
	for range 60 { // The other writer answers every second for a minute.
		actions, memory := decide(t, in)
		for _, action := range actions {
			switch a := action.(type) {
			case engine.PatchRemote:
				patches++
			case engine.RecordEvent:
				events++
				assert.Equal(t, engine.ReasonFailedReflection, a.Reason)
			}
		}
		in.Memory, in.Facts.Now = memory, in.Facts.Now.Add(time.Second)
	}
	assert.Greater(t, patches, 3)
	assert.Less(t, patches, 10)
	assert.NotZero(t, events)

	in.Local.GetAnnotations()["storage.longshore.dev/reclaim-policy"] = "Retain"
	actions, _ := decide(t, in)
	assert.IsType(t, engine.PatchRemote{}, actions[0], "a change of the local claim is sent at once")
}
