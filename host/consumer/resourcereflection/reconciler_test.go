package resourcereflection

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
)

const name = "certificate.cert-manager.io"

func certificates() *policyv1alpha1.ResourceReflection {
	return &policyv1alpha1.ResourceReflection{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u", Generation: 2},
		Spec:       policyv1alpha1.ResourceReflectionSpec{Group: "cert-manager.io", Version: "v1", Kind: "Certificate"},
	}
}

// component returns the report of a virtual kubelet; change alters its observation.
func component(node string, change func(*policyv1alpha1.ReflectionObservation)) policyv1alpha1.PolicyComponent {
	o := policyv1alpha1.ReflectionObservation{Name: name, UID: "u", Generation: 2, Reflected: true}
	if change != nil {
		change(&o)
	}
	return policyv1alpha1.PolicyComponent{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-" + node, Name: node},
		Status:     policyv1alpha1.PolicyComponentStatus{Component: "virtual-kubelet/" + node, Reflections: []policyv1alpha1.ReflectionObservation{o}},
	}
}

func TestSummarize(t *testing.T) {
	type observation = policyv1alpha1.ReflectionObservation
	forbidden := func(o *observation) { o.Reason, o.Message, o.Reflected = "Forbidden", "May not.", false }
	for title, tc := range map[string]struct {
		components     []policyv1alpha1.PolicyComponent
		reason, text   string
		schema, fields string
	}{
		"no report": {nil, ReasonNotObserved, "No virtual kubelet has reported.", ReasonMatches, ""},
		"two reflect": {
			[]policyv1alpha1.PolicyComponent{component("milan", nil), component("turin", nil)},
			ReasonReflecting, "Virtual kubelets that reflect the kind: 2.", ReasonMatches, "",
		},
		"one may not": {
			[]policyv1alpha1.PolicyComponent{component("turin", forbidden), component("milan", nil)},
			"Forbidden", "virtual-kubelet/turin: May not.", ReasonMatches, "",
		},
		"one is behind": {
			[]policyv1alpha1.PolicyComponent{component("milan", func(o *observation) { o.Generation = 1 })},
			ReasonBehind, "virtual-kubelet/milan: Reflects generation 1.", ReasonMatches, "",
		},
		"a report about an object of the same name that was deleted": {
			[]policyv1alpha1.PolicyComponent{component("milan", func(o *observation) { o.UID = "old" })},
			ReasonNotObserved, "No virtual kubelet has reported.", ReasonMatches, "",
		},
		"another schema": {
			[]policyv1alpha1.PolicyComponent{component("milan", func(o *observation) { o.SchemaDifferences = "spec.a does not exist in the provider." })},
			ReasonReflecting, "Virtual kubelets that reflect the kind: 1.",
			ReasonDiffers, "Objects that have these fields are refused or lose them. virtual-kubelet/milan: spec.a does not exist in the provider.",
		},
	} {
		t.Run(title, func(t *testing.T) {
			status := Summarize(certificates(), tc.components)
			assert.Equal(t, int64(2), status.ObservedGeneration)
			require.Len(t, status.Conditions, 2)
			ready, schema := status.Conditions[0], status.Conditions[1]
			assert.Equal(t, tc.reason, ready.Reason)
			assert.Equal(t, tc.text, ready.Message)
			assert.Equal(t, tc.reason == ReasonReflecting, ready.Status == metav1.ConditionTrue)
			assert.Equal(t, tc.schema, schema.Reason)
			assert.Equal(t, tc.fields, schema.Message)
			assert.Equal(t, tc.schema == ReasonMatches, schema.Status == metav1.ConditionTrue)
		})
	}
}

type rig struct {
	client     client.Client
	events     *events.FakeRecorder
	reconciler *Reconciler
}

func newRig(objects ...client.Object) *rig {
	r := &rig{events: events.NewFakeRecorder(10)}
	r.client = fakeclient.Builder(objects...).Build()
	r.reconciler = &Reconciler{Client: r.client, Events: r.events, Clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0))}
	return r
}

func (r *rig) reconcile(t *testing.T) {
	t.Helper()
	_, err := r.reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: name}})
	require.NoError(t, err)
}

func (r *rig) get(t *testing.T) *policyv1alpha1.ResourceReflection {
	t.Helper()
	found := &policyv1alpha1.ResourceReflection{}
	require.NoError(t, r.client.Get(t.Context(), client.ObjectKey{Name: name}, found))
	return found
}

func TestTheStatusIsWrittenOnceAndAnEventRecorded(t *testing.T) {
	milan := component("milan", func(o *policyv1alpha1.ReflectionObservation) {
		o.Reason, o.Message = "NotServedByProvider", "Install it."
	})
	r := newRig(certificates(), &milan)
	r.reconcile(t)
	found := r.get(t)
	assert.Equal(t, []string{policyv1alpha1.ResourceReflectionFinalizer}, found.Finalizers)
	assert.Equal(t, []policyv1alpha1.VirtualNodeReflection{{
		Name: "virtual-kubelet/milan", Generation: 2, Reason: "NotServedByProvider", Message: "Install it.", Reflected: true,
	}}, found.Status.VirtualNodes)
	assert.True(t, meta.IsStatusConditionFalse(found.Status.Conditions, policyv1alpha1.ReadyCondition))
	require.Len(t, r.events.Events, 1)
	assert.Equal(t, "Warning NotServedByProvider virtual-kubelet/milan: Install it.", <-r.events.Events)

	r.reconcile(t)
	assert.Equal(t, found.ResourceVersion, r.get(t).ResourceVersion, "nothing has changed")
	assert.Empty(t, r.events.Events)

	before := milan.DeepCopy()
	milan.Status.Reflections[0].Reason, milan.Status.Reflections[0].Message = "", ""
	require.NoError(t, r.client.Patch(t.Context(), &milan, client.MergeFrom(before)))
	r.reconcile(t)
	assert.True(t, meta.IsStatusConditionTrue(r.get(t).Status.Conditions, policyv1alpha1.ReadyCondition))
	assert.Equal(t, "Normal Reflecting Virtual kubelets that reflect the kind: 1.", <-r.events.Events)
}

func TestADeletedResourceReflectionWaitsForRemoteObjects(t *testing.T) {
	milan := component("milan", func(o *policyv1alpha1.ReflectionObservation) {
		o.Reason, o.Message = "Withdrawing", "Remote objects: 1."
	})
	turin := component("turin", func(o *policyv1alpha1.ReflectionObservation) { o.Reason, o.Reflected = "Forbidden", false })
	r := newRig(certificates(), &milan, &turin)
	r.reconcile(t)
	require.NoError(t, r.client.Delete(t.Context(), certificates()))
	r.reconcile(t)
	assert.NotNil(t, r.get(t).DeletionTimestamp, "milan may have remote objects")

	before := milan.DeepCopy()
	milan.Status.Reflections = nil
	require.NoError(t, r.client.Patch(t.Context(), &milan, client.MergeFrom(before)))
	assert.Equal(t, []ctrl.Request{{NamespacedName: client.ObjectKey{Name: name}}}, requests(t.Context(), before), "the old object of the update names it")
	r.reconcile(t)
	assert.True(t, apierrors.IsNotFound(r.client.Get(t.Context(), client.ObjectKey{Name: name}, &policyv1alpha1.ResourceReflection{})))
	r.reconcile(t)
}
