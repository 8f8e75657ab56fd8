package rig

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/view"
)

func TestDecisionsAreHeldAgainstWhatTheClusterReports(t *testing.T) {
	began := time.Unix(1000, 0)
	p := &provenance{builtIn: "b0b0", loaded: map[string]loaded{
		"registry-rewrite":  {digests: []string{"5555", "6666"}, since: began},
		"default-offloaded": {digests: []string{"7777"}, since: began},
	}}
	another, changed := &policyv1alpha1.OffloadingPolicy{}, &policyv1alpha1.OffloadingPolicy{}
	another.Name, another.Spec.Module.BuiltIn = "twice", policyv1alpha1.BuiltInDefault
	changed.Name, changed.Spec.Module.BuiltIn = "default-antiaffinity", policyv1alpha1.BuiltInDefault
	changed.Status.Digest = "sha256:5555"
	p.add(another, nil)
	p.add(changed, nil)
	before, after := began, began.Add(time.Second)
	admitted := view.Entry{Point: "PodMutation", Policy: "default-podplacement", Module: "longshore-default", Digest: "b0b0"}
	of := func(policy, digest string) view.Entry {
		return view.Entry{Point: "PodMutation", Policy: policy, Module: "m", Digest: digest}
	}
	cases := map[string]struct {
		decisions []view.Entry
		created   time.Time
		want      string // of the error; empty: none
	}{
		"a default policy, by the built-in module":                          {decisions: []view.Entry{admitted}},
		"a default policy, by another module":                               {decisions: []view.Entry{of("default-antiaffinity", "5555")}, want: "not of the built-in module b0b0"},
		"another policy with the built-in module":                           {decisions: []view.Entry{of("twice", "b0b0")}},
		"that policy, by another module":                                    {decisions: []view.Entry{of("twice", "5555")}, want: "reports b0b0"},
		"a default policy, by a module that it reports and that was loaded": {decisions: []view.Entry{of("default-offloaded", "7777")}},
		"that policy, by the built-in module":                               {decisions: []view.Entry{of("default-offloaded", "b0b0")}, want: "reports 7777"},
		"a loaded policy, by the module that it reports":                    {decisions: []view.Entry{admitted, of("registry-rewrite", "6666")}},
		"a loaded policy, by another policy's module":                       {decisions: []view.Entry{of("registry-rewrite", "7777")}, want: "reports 5555, 6666"},
		"a loaded policy, by no module":                                     {decisions: []view.Entry{of("registry-rewrite", "")}, want: "reports 5555, 6666"},
		"a loaded policy, by a version before":                              {decisions: []view.Entry{of("registry-rewrite", "4444")}, created: before},
		"a loaded policy, that fell back to a version before":               {decisions: []view.Entry{{Point: "PodMutation", Policy: "registry-rewrite", Digest: "4444", FellBack: true}}},
		"a loaded policy, ignored for want of a module":                     {decisions: []view.Entry{admitted, {Point: "PodMutation", Policy: "registry-rewrite", Ignored: true}}},
		"a policy that was taken away":                                      {decisions: []view.Entry{admitted, of("lie", "9999")}},
		"no policy's name":                                                  {decisions: []view.Entry{admitted, of("", "9999")}, want: "not of the built-in module"},
		"decisions too many to list":                                        {decisions: []view.Entry{admitted, {Omitted: 3}}},
		"no policy decided":                                                 {want: "no policy decided about its admission"},
		"no policy decided at admission":                                    {decisions: []view.Entry{{Point: "OffloadingPatch", Policy: "default-offloadingpatch", Digest: "b0b0"}}, want: "no policy decided about its admission"},
	}
	for name, tc := range cases {
		created := tc.created
		if created.IsZero() {
			created = after
		}
		err := p.check(created, tc.decisions)
		if tc.want == "" {
			require.NoError(t, err, name)
			continue
		}
		assert.ErrorContains(t, err, tc.want, name)
	}
}

func TestWhatAPolicyReports(t *testing.T) {
	at := func(seconds int64) metav1.Time { return metav1.Unix(seconds, 0) }
	policy := &policyv1alpha1.OffloadingPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "mine", UID: "uid", Annotations: map[string]string{policyv1alpha1.EnforcedAnnotation: `{"digest":"sha256:1123456789abcdef"}`}},
		Status:     policyv1alpha1.OffloadingPolicyStatus{Digest: "sha256:0123456789abcdef"},
	}
	component := func(o policyv1alpha1.PolicyObservation) policyv1alpha1.PolicyComponent {
		o.Name = "mine"
		return policyv1alpha1.PolicyComponent{Status: policyv1alpha1.PolicyComponentStatus{Policies: []policyv1alpha1.PolicyObservation{o}}}
	}
	l := reported(policy, []policyv1alpha1.PolicyComponent{
		component(policyv1alpha1.PolicyObservation{UID: "uid", Digest: "sha256:2123456789abcdef", Since: at(7)}),
		component(policyv1alpha1.PolicyObservation{UID: "uid", Since: at(9)}),
		component(policyv1alpha1.PolicyObservation{UID: "another", Digest: "sha256:3123456789abcdef", Since: at(10)}),
	})
	require.Equal(t, []string{"0123456789ab", "1123456789ab", "2123456789ab"}, l.digests)
	assert.True(t, l.since.Equal(at(9).Time))
	assert.Empty(t, reported(&policyv1alpha1.OffloadingPolicy{}, nil).digests, "one that was never loaded reports nothing")
}
