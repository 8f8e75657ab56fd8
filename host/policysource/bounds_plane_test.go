package policysource_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/internal/testkit/policycluster"
)

// bounded changes whether the CRD has bounds for spec.limits, and waits until it is served.
func bounded(t *testing.T, cluster *policycluster.Cluster, with *apiextensionsv1.CustomResourceDefinition) (before *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, cluster.Admin.Get(t.Context(), client.ObjectKey{Name: "offloadingpolicies.policy.longshore.dev"}, crd))
	before = crd.DeepCopy()
	if with != nil {
		crd.Spec = with.Spec
	} else {
		spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		limits := spec.Properties["limits"]
		fuel := limits.Properties["fuel"]
		fuel.Maximum, limits.XValidations = nil, nil
		limits.Properties["fuel"] = fuel
		spec.Properties["limits"] = limits
	}
	require.NoError(t, cluster.Admin.Update(t.Context(), crd))
	planetest.Until(t, func(t planetest.T) bool {
		err := cluster.Admin.Create(t.Context(), tooMuch("probe"), client.DryRunAll)
		return apierrors.IsInvalid(err) == (with != nil) && (err == nil || apierrors.IsInvalid(err))
	}, soon, tick, "the CRD is served with its change")
	return before
}

func tooMuch(name string) *policyv1alpha1.OffloadingPolicy {
	policy := object(name, func(spec *policyv1alpha1.OffloadingPolicySpec) {
		fromConfigMap(spec)
		spec.Limits = &policyv1alpha1.Limits{Fuel: ptr.To[int64](9e18)}
	})
	policy.UID, policy.Generation, policy.CreationTimestamp = "", 0, metav1.Time{}
	return policy
}

// A policy may have been stored before the CRD had bounds. Its status says what to change.
func TestLimitsStoredBeforeTheBoundsAgainstARealAPIServer(t *testing.T) {
	cluster := policycluster.Start(t)
	s := &site{t: t, Cluster: cluster}
	s.create(configMap("v1"))
	strict := bounded(t, cluster, nil)
	s.create(tooMuch("mine"))
	bounded(t, cluster, strict)

	s.startStatus()
	s.components = []*component{s.start("webhook")}
	policy := s.awaitReady("mine", "False InvalidSpec", "")
	assert.Contains(t, ready(policy), "spec.limits.fuel is 9000000000000000000, more than the host's bound of 2000000: the operator must lower it, or remove it")
	assert.Empty(t, s.components[0].hostname(t.Context()), "the policy is not called")

	s.edit("mine", func(spec *policyv1alpha1.OffloadingPolicySpec) { spec.Limits = nil })
	s.awaitHostname("v1")
}
