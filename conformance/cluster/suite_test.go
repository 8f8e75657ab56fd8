package cluster

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
)

// plane is a cluster in which no controller runs.
func plane(id string, objects ...client.Object) client.Client {
	configMap := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "longshore", Name: "id", Labels: map[string]string{"app.kubernetes.io/name": liqocorev1beta1.ClusterIDConfigMapLabelValue}},
		Data:       map[string]string{liqocorev1beta1.ClusterIDConfigMapKey: id},
	}
	return fakeclient.Builder(append(objects, configMap)...).Build()
}

func options(t *testing.T, consumer, provider client.Client) Options {
	t.Helper()
	return Options{
		Consumer: consumer, Provider: provider, Namespace: "conformance-a", Image: "i", Timeout: 20 * time.Millisecond, PollInterval: time.Millisecond,
		Impersonate: func(string, []string) (client.Client, error) { return provider, nil },
	}
}

func readyNode() *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan", Labels: map[string]string{
		offloadingv1beta1.NodeTypeLabel: offloadingv1beta1.NodeTypeVirtual, liqocorev1beta1.RemoteClusterIDLabel: "milan",
	}}}
	node.Spec.Taints = []corev1.Taint{{Key: offloadingv1beta1.VirtualNodeTaintKey, Effect: corev1.TaintEffectNoExecute}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return node
}

func results(r *Report) map[string]string {
	states := map[string]string{}
	for _, check := range r.Checks {
		switch {
		case check.Skipped != "":
			states[check.Rule] = "skipped: " + check.Skipped
		case check.Failed > 0:
			states[check.Rule] = "failed"
		default:
			states[check.Rule] = "passed"
		}
	}
	return states
}

func TestClustersThatAreNotPeered(t *testing.T) {
	consumer := plane("rome")
	report, err := Run(t.Context(), options(t, consumer, plane("milan")))
	require.NoError(t, err)
	assert.False(t, report.Conforms)
	states := results(report)
	assert.Equal(t, "failed", states["node.ready"])
	assert.Equal(t, "skipped: the check node.ready did not pass", states["namespace.mapped"])
	assert.Equal(t, "skipped: the check namespace.mapped did not pass", states["pod.runs"])
	assert.Contains(t, report.Findings[0].Error, "longshorectl peer")
	assert.Len(t, report.Checks, len(Rules()))
	assert.NoError(t, absent(t.Context(), consumer, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "conformance-a"}}))
}

func TestANodeWithoutControllers(t *testing.T) {
	consumer := plane("rome", readyNode())
	report, err := Run(t.Context(), options(t, consumer, plane("milan")))
	require.NoError(t, err)
	states := results(report)
	assert.Equal(t, "passed", states["node.ready"])
	assert.Equal(t, "failed", states["namespace.mapped"])
	assert.Contains(t, report.Findings[0].Error, `the NamespaceOffloading is in phase ""`)
}

func TestClustersThatAreNoPair(t *testing.T) {
	existing := plane("rome", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "conformance-a"}})
	for name, tc := range map[string]struct {
		consumer, provider client.Client
		want               string
	}{
		"a consumer that is not installed": {fakeclient.Builder().Build(), plane("milan"), "the consumer has 0 ConfigMaps with a cluster ID"},
		"one cluster":                      {plane("rome"), plane("rome"), `both clusters have the ID "rome"`},
		"a namespace that exists":          {existing, plane("milan"), "name one that does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			report, err := Run(t.Context(), options(t, tc.consumer, tc.provider))
			require.ErrorContains(t, err, tc.want)
			assert.Nil(t, report)
		})
	}
	require.NoError(t, existing.Get(t.Context(), client.ObjectKey{Name: "conformance-a"}, &corev1.Namespace{}), "a namespace of others stays")
}

func TestAnInterruptLeavesNothing(t *testing.T) {
	ctx, interrupt := context.WithCancelCause(t.Context())
	consumer := plane("rome", readyNode())
	o := options(t, consumer, plane("milan"))
	o.Timeout = time.Minute
	interrupted := errors.New("the user pressed Ctrl-C")
	o.Step = func(rule Rule, run func() Outcome) {
		if rule.ID == "namespace.mapped" {
			interrupt(interrupted)
		}
		run() // the report has the outcome
	}
	report, err := Run(ctx, o)
	require.ErrorIs(t, err, interrupted)
	assert.Equal(t, map[string]string{"node.ready": "passed"}, results(report))
	assert.NoError(t, absent(t.Context(), consumer, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "conformance-a"}}))
}

func TestReport(t *testing.T) {
	wire, own := Rule{ID: "a", Profile: ProfileWire, Sentence: "It works.", Section: "1"}, Rule{ID: "b", Profile: ProfileLongshore, Sentence: "It works."}
	r := newReport(&session{consumerID: "rome", providerID: "milan"})
	r.add(own, Outcome{Skipped: "another implementation"})
	assert.False(t, r.Conforms, "nothing of the wire was tested")
	r.add(wire, Outcome{})
	assert.True(t, r.Conforms, "a profile that is skipped is not a failure")
	assert.Equal(t, "another implementation", r.Features[1].Skipped)
	assert.Equal(t, "It works. (wire 1)", r.Checks[1].Sentence)
	r.add(own, Outcome{Err: errors.New("broken")})
	assert.False(t, r.Conforms)
	assert.Empty(t, r.Features[1].Skipped)
	assert.Len(t, r.Results(), 2)
}

func TestRulesAreUniqueAndInOrder(t *testing.T) {
	seen := map[string]bool{}
	for _, rule := range Rules() {
		assert.False(t, seen[rule.ID], rule.ID)
		for _, needed := range rule.needs {
			assert.True(t, seen[needed], "%s is tested after %s", rule.ID, needed)
		}
		seen[rule.ID] = true
	}
}
