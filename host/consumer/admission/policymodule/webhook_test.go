package policymodule_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/consumer/admission/policymodule"
	"github.com/longshore-dev/longshore/host/policysource"
)

// judge records its calls and returns a fixed verdict.
type judge struct {
	policies []string
	stored   []string
	verdict  policysource.Verdict
	err      error
}

func (j *judge) Judge(_ context.Context, policy *policyv1alpha1.OffloadingPolicy, stored *corev1.ConfigMap) (policysource.Verdict, error) {
	j.policies = append(j.policies, policy.Name)
	if stored != nil {
		j.stored = append(j.stored, stored.Name)
	}
	return j.verdict, j.err
}

func policy(name, configMap string, labels map[string]string) *policyv1alpha1.OffloadingPolicy {
	return &policyv1alpha1.OffloadingPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: policyv1alpha1.GroupVersion.String(), Kind: "OffloadingPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: policyv1alpha1.OffloadingPolicySpec{Module: policyv1alpha1.ModuleSource{
			ConfigMap: &policyv1alpha1.ConfigMapSource{Namespace: "longshore", Name: configMap},
		}},
	}
}

func inParts(p *policyv1alpha1.OffloadingPolicy, names ...string) *policyv1alpha1.OffloadingPolicy {
	p.Spec.Module.ConfigMap.Parts = names
	return p
}

func configMap(name string, change func(*corev1.ConfigMap)) *corev1.ConfigMap {
	c := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "longshore", Name: name},
		BinaryData: map[string][]byte{"module.wasm": {0}},
	}
	if change != nil {
		change(c)
	}
	return c
}

func labeled(c *corev1.ConfigMap) { c.Labels = map[string]string{policyv1alpha1.PolicyLabel: "true"} }

func request(t *testing.T, operation admissionv1.Operation, before, after client.Object) admission.Request {
	t.Helper()
	r := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: operation, Name: after.GetName(), Namespace: after.GetNamespace(),
		Kind: metav1.GroupVersionKind{Kind: after.GetObjectKind().GroupVersionKind().Kind},
	}}
	raw, err := json.Marshal(after)
	require.NoError(t, err)
	r.Object = runtime.RawExtension{Raw: raw}
	if before != nil {
		raw, err = json.Marshal(before)
		require.NoError(t, err)
		r.OldObject = runtime.RawExtension{Raw: raw}
	}
	return r
}

func TestHandle(t *testing.T) {
	managed := map[string]string{policyv1alpha1.ManagedByLabel: policyv1alpha1.ManagedByConfigMap}
	bad := policysource.Verdict{Denial: "the module is cut in half: its author must build it again"}
	deleting := func(c *corev1.ConfigMap) {
		labeled(c)
		c.DeletionTimestamp, c.Finalizers = &metav1.Time{Time: metav1.Now().Rfc3339Copy().Time}, []string{"example.com/f"}
	}
	for name, tc := range map[string]struct {
		operation     admissionv1.Operation
		before, after client.Object
		existing      []client.Object
		verdict       policysource.Verdict
		err           error
		unreachable   bool
		wantJudged    []string
		wantDenial    string
		wantWarning   string
	}{
		"a good policy":                                  {after: policy("mine", "m", nil), wantJudged: []string{"mine"}},
		"a bad policy":                                   {after: policy("mine", "m", nil), verdict: bad, wantJudged: []string{"mine"}, wantDenial: bad.Denial},
		"a policy without a module":                      {after: policy("mine", "m", nil), verdict: policysource.Verdict{Warnings: []string{"not used yet"}}, wantJudged: []string{"mine"}, wantWarning: "not used yet"},
		"a failure of the API server":                    {after: policy("mine", "m", nil), err: errors.New("no connection"), wantJudged: []string{"mine"}, wantWarning: "not checked, see the status of the policy: no connection"},
		"a change of the spec":                           {before: policy("mine", "old", nil), after: policy("mine", "m", nil), verdict: bad, wantJudged: []string{"mine"}, wantDenial: bad.Denial},
		"a change of labels only":                        {before: policy("mine", "m", nil), after: policy("mine", "m", managed), verdict: bad},
		"a deletion":                                     {operation: admissionv1.Delete, after: policy("mine", "m", nil), verdict: bad},
		"a ConfigMap that no policy names":               {after: configMap("other", nil), existing: []client.Object{policy("mine", "m", nil)}, verdict: bad},
		"a ConfigMap that two policies name":             {after: configMap("m", nil), existing: []client.Object{policy("a", "m", nil), policy("b", "m", nil), policy("c", "x", nil)}, wantJudged: []string{"a", "b"}},
		"a part of a module":                             {after: configMap("m-2", nil), existing: []client.Object{inParts(policy("a", "m", nil), "m-2"), policy("b", "m", nil)}, wantJudged: []string{"a"}},
		"a bad module of a policy":                       {after: configMap("m", nil), existing: []client.Object{policy("a", "m", nil)}, verdict: bad, wantJudged: []string{"a"}, wantDenial: bad.Denial},
		"a labeled ConfigMap":                            {after: configMap("m", labeled), wantJudged: []string{"m"}},
		"a ConfigMap that gets the label":                {before: configMap("m", nil), after: configMap("m", labeled), verdict: bad, wantJudged: []string{"m"}, wantDenial: bad.Denial},
		"a labeled ConfigMap with its policy":            {before: configMap("m", labeled), after: configMap("m", func(c *corev1.ConfigMap) { labeled(c); c.BinaryData["module.wasm"] = []byte{1} }), existing: []client.Object{policy("m", "m", managed)}, wantJudged: []string{"m"}},
		"a labeled ConfigMap whose content is unchanged": {before: configMap("m", labeled), after: configMap("m", func(c *corev1.ConfigMap) { labeled(c); c.Annotations = map[string]string{"a": "b"} }), verdict: bad},
		"a ConfigMap that is being deleted":              {before: configMap("m", nil), after: configMap("m", deleting), verdict: bad},
		"an unmanaged policy of the name":                {after: configMap("m", labeled), existing: []client.Object{policy("m", "other", nil)}, wantDenial: `ConfigMap m cannot be a policy: OffloadingPolicy "m" exists and is not managed by Longshore`},
		"a broken policy.yaml":                           {after: configMap("m", func(c *corev1.ConfigMap) { labeled(c); c.Data = map[string]string{"policy.yaml": "pionts: []"} }), wantDenial: `ConfigMap m cannot be a policy: policy.yaml: unknown field "pionts"; its author must correct it`},
		"a labeled ConfigMap in another namespace":       {after: configMap("m", func(c *corev1.ConfigMap) { labeled(c); c.Namespace = "shop" }), verdict: bad, wantWarning: `has no effect in namespace "shop"`},
		"an unreachable API server":                      {after: configMap("m", labeled), unreachable: true, wantWarning: "not checked"},
	} {
		t.Run(name, func(t *testing.T) {
			reader := fakeclient.Builder(tc.existing...).WithInterceptorFuncs(interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
					if tc.unreachable {
						return errors.New("no connection")
					}
					return c.List(ctx, list, options...)
				},
			}).Build()
			judged := &judge{verdict: tc.verdict, err: tc.err}
			h := &policymodule.Handler{Decoder: admission.NewDecoder(reader.Scheme()), Reader: reader, Judge: judged, Namespace: "longshore"}
			operation := tc.operation
			if operation == "" && tc.before != nil {
				operation = admissionv1.Update
			} else if operation == "" {
				operation = admissionv1.Create
			}
			response := h.Handle(t.Context(), request(t, operation, tc.before, tc.after))
			assert.Equal(t, tc.wantJudged, judged.policies)
			if tc.after.GetObjectKind().GroupVersionKind().Kind == "ConfigMap" {
				assert.Len(t, judged.stored, len(tc.wantJudged), "the ConfigMap that is being stored is judged")
			}
			assert.Equal(t, tc.wantDenial == "", response.Allowed)
			if tc.wantDenial != "" {
				assert.Contains(t, response.Result.Message, tc.wantDenial)
			}
			if tc.wantWarning == "" {
				assert.Empty(t, response.Warnings)
			} else {
				require.Len(t, response.Warnings, 1)
				assert.Contains(t, response.Warnings[0], tc.wantWarning)
			}
		})
	}
}

// slow blocks until the context ends.
type slow struct{}

func (slow) Judge(ctx context.Context, _ *policyv1alpha1.OffloadingPolicy, _ *corev1.ConfigMap) (policysource.Verdict, error) {
	<-ctx.Done()
	return policysource.Verdict{}, fmt.Errorf("judging: %w", ctx.Err())
}

func TestTheResponsePrecedesTheAPIServersTimeout(t *testing.T) {
	reader := fakeclient.Builder(policy("a", "m", nil), policy("b", "m", nil)).Build()
	h := &policymodule.Handler{Decoder: admission.NewDecoder(reader.Scheme()), Reader: reader, Judge: slow{}, Namespace: "longshore"}
	for name, object := range map[string]client.Object{"a policy": policy("mine", "m", nil), "the module of two policies": configMap("m", nil)} {
		t.Run(name, func(t *testing.T) {
			create := request(t, admissionv1.Create, nil, object)
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				response := h.Handle(t.Context(), create)
				assert.Equal(t, policymodule.Patience, time.Since(began))
				assert.True(t, response.Allowed)
				require.Len(t, response.Warnings, 1)
				assert.Contains(t, response.Warnings[0], "not checked within 12s: see the status of the policy")
			})
		})
	}
}
