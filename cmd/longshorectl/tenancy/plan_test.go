package tenancy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
)

func TestConditionsOfATenant(t *testing.T) {
	const active, cordoned, drained = authv1beta1.TenantConditionActive, authv1beta1.TenantConditionCordoned, authv1beta1.TenantConditionDrained
	for name, tc := range map[string]struct {
		current authv1beta1.TenantCondition
		do      verb
		want    authv1beta1.TenantCondition
		notice  string
	}{
		"cordon an active one":     {active, cordon, cordoned, ""},
		"cordon a new one":         {"", cordon, cordoned, ""},
		"cordon a cordoned one":    {cordoned, cordon, cordoned, "tenant rome is Cordoned already"},
		"cordon a drained one":     {drained, cordon, drained, "tenant rome is Drained, which takes more away; run longshorectl activate tenant rome before"},
		"uncordon a cordoned one":  {cordoned, uncordon, active, ""},
		"uncordon an active one":   {active, uncordon, active, "tenant rome is Active already"},
		"uncordon a drained one":   {drained, uncordon, drained, "tenant rome is Drained; run longshorectl activate tenant rome"},
		"drain an active one":      {active, drain, drained, ""},
		"drain a cordoned one":     {cordoned, drain, drained, ""},
		"drain a drained one":      {drained, drain, drained, "tenant rome is Drained already"},
		"activate a drained one":   {drained, activate, active, ""},
		"activate a cordoned one":  {cordoned, activate, active, ""},
		"activate an active one":   {active, activate, active, "tenant rome is Active already"},
		"activate one that is new": {"", activate, active, "tenant rome is Active already"},
	} {
		t.Run(name, func(t *testing.T) {
			want, notice := next("rome", tc.current, tc.do)
			assert.Equal(t, tc.want, want)
			assert.Equal(t, tc.notice, notice)
		})
	}
}

func slice(annotations map[string]string, labels map[string]string) authv1beta1.ResourceSlice {
	return authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "mypool", Annotations: annotations, Labels: labels}}
}

func TestEffectsOfACondition(t *testing.T) {
	copied := map[string]string{"liqo.io/replicated": "true", "liqo.io/originID": "rome"}
	marked, claims := map[string]string{"liqo.io/cordon-tenant": "true"}, map[string]string{"liqo.io/cordon-tenant": "false"}
	for name, tc := range map[string]struct {
		condition     authv1beta1.TenantCondition
		slices        []authv1beta1.ResourceSlice
		namespaceMaps []string
		want          string
	}{
		"nothing was granted":                    {condition: authv1beta1.TenantConditionCordoned},
		"a slice is not marked yet":              {condition: authv1beta1.TenantConditionCordoned, slices: []authv1beta1.ResourceSlice{slice(nil, copied)}, want: "the annotation liqo.io/cordon-tenant of ResourceSlice mypool to follow"},
		"a slice is marked":                      {condition: authv1beta1.TenantConditionCordoned, slices: []authv1beta1.ResourceSlice{slice(marked, copied)}},
		"a slice that claims not to be marked":   {condition: authv1beta1.TenantConditionCordoned, slices: []authv1beta1.ResourceSlice{slice(claims, copied)}, want: "the annotation liqo.io/cordon-tenant of ResourceSlice mypool to follow"},
		"a slice is marked still":                {condition: authv1beta1.TenantConditionActive, slices: []authv1beta1.ResourceSlice{slice(marked, copied)}, want: "the annotation liqo.io/cordon-tenant of ResourceSlice mypool to follow"},
		"a slice of this cluster's own":          {condition: authv1beta1.TenantConditionDrained, slices: []authv1beta1.ResourceSlice{slice(nil, nil)}},
		"a slice that is not deleted yet":        {condition: authv1beta1.TenantConditionDrained, slices: []authv1beta1.ResourceSlice{slice(nil, copied)}, want: "ResourceSlice mypool to be deleted"},
		"namespaces that are not deleted yet":    {condition: authv1beta1.TenantConditionDrained, namespaceMaps: []string{"milan"}, want: "the offloaded namespaces of NamespaceMap milan to be deleted"},
		"offloaded namespaces of an active one":  {condition: authv1beta1.TenantConditionActive, namespaceMaps: []string{"milan"}},
		"everything of a drained one is deleted": {condition: authv1beta1.TenantConditionDrained},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, pending(&authv1beta1.Tenant{Spec: authv1beta1.TenantSpec{TenantCondition: tc.condition}}, tc.slices, tc.namespaceMaps))
		})
	}
	tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
	tenant.Status.Conditions = []metav1.Condition{{Type: authv1beta1.TenantReady, ObservedGeneration: 1}}
	assert.Equal(t, "Longshore's manager to look at the Tenant", pending(tenant, nil, nil))
	tenant.Status.Conditions[0].ObservedGeneration = 2
	assert.Empty(t, pending(tenant, nil, nil))
}

func TestMarksOfASlice(t *testing.T) {
	s := slice(map[string]string{"liqo.io/cordon": "false"}, nil)
	assert.True(t, setCordon(&s, true))
	assert.Equal(t, "true", s.Annotations["liqo.io/cordon"])
	assert.False(t, setCordon(&s, true))
	assert.True(t, setCordon(&s, false))
	assert.Empty(t, s.Annotations)
	assert.False(t, setCordon(&s, false))
}
