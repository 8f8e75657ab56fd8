package policysource_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
)

func digest(content string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(content))) }

// inParts is the spec of a module in the ConfigMaps "module", "module-2" and "module-3".
func inParts(content string) func(*policyv1alpha1.OffloadingPolicySpec) {
	return func(spec *policyv1alpha1.OffloadingPolicySpec) {
		fromConfigMap(spec)
		spec.Module.ConfigMap.Parts = []string{"module-2", "module-3"}
		spec.Module.ConfigMap.Digest = digest(content)
	}
}

func part(name, content string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "longshore", Name: name},
		BinaryData: map[string][]byte{"module.wasm": []byte(content)},
	}
}

func TestPartsOfSeveralVersionsAreNotLoaded(t *testing.T) {
	const whole = "one two three"
	complete := []client.Object{part("module", "one "), part("module-2", "two "), part("module-3", "three")}
	for name, tc := range map[string]struct {
		stored []client.Object
		spec   func(*policyv1alpha1.OffloadingPolicySpec)
		want   string
	}{
		"all parts are stored":          {stored: complete, spec: inParts(whole)},
		"the last part is missing":      {stored: complete[:2], spec: inParts(whole), want: "ModuleNotFound: ConfigMap longshore/module-3 does not exist"},
		"the first part is missing":     {stored: complete[1:], spec: inParts(whole), want: "ModuleNotFound: ConfigMap longshore/module does not exist"},
		"parts in another order":        {stored: []client.Object{part("module", "two "), part("module-2", "one "), part("module-3", "three")}, spec: inParts(whole), want: "ModuleIncomplete: the module in ConfigMap longshore/module and its 2 parts has digest " + digest("two one three") + ", not spec.module.configMap.digest"},
		"a part of another version":     {stored: []client.Object{complete[0], part("module-2", "TWO "), complete[2]}, spec: inParts(whole), want: "ModuleIncomplete: "},
		"the digest of another version": {stored: complete, spec: inParts("other"), want: "ModuleIncomplete: "},
		"parts without a digest":        {stored: complete, spec: func(s *policyv1alpha1.OffloadingPolicySpec) { inParts("")(s); s.Module.ConfigMap.Digest = "" }, want: "ModuleIncomplete: "},
		"parts under another key":       {stored: []client.Object{complete[0], complete[1], part("module-3", "three")}, spec: func(s *policyv1alpha1.OffloadingPolicySpec) { inParts(whole)(s); s.Module.ConfigMap.Key = "x" }, want: `ModuleNotFound: binaryData of ConfigMap longshore/module has no key "x"`},
		"one part with its digest": {stored: complete, spec: func(s *policyv1alpha1.OffloadingPolicySpec) {
			fromConfigMap(s)
			s.Module.ConfigMap.Digest = digest("one ")
		}},
		"one part with another digest": {stored: complete, spec: func(s *policyv1alpha1.OffloadingPolicySpec) {
			fromConfigMap(s)
			s.Module.ConfigMap.Digest = digest("x")
		}, want: "ModuleIncomplete: "},
	} {
		t.Run(name, func(t *testing.T) {
			mine := object("mine", tc.spec)
			var objects []client.Object
			for _, o := range tc.stored {
				objects = append(objects, o.DeepCopyObject().(client.Object))
			}
			r := newRig(t, append(objects, mine)...)
			r.mustPass()
			verdict, err := r.source.Judge(t.Context(), mine, nil)
			require.NoError(t, err)
			assert.Empty(t, verdict.Denial, "parts may be stored later")
			if tc.want == "" {
				assert.Equal(t, "True Bound", r.reason("mine"))
				assert.Empty(t, verdict.Warnings)
				return
			}
			assert.Contains(t, r.ready("mine"), "False "+strings.SplitN(tc.want, ":", 2)[0])
			assert.Contains(t, r.own("mine").Message, strings.SplitN(tc.want, ": ", 2)[1])
			assert.Empty(t, r.loads)
			assert.Len(t, verdict.Warnings, 1)
		})
	}
}

func TestAnUpdateInPartsIsOneChangeAgainstARealAPIServer(t *testing.T) {
	s := newSite(t, object("mine", inParts("one two three")))
	for _, o := range []*corev1.ConfigMap{part("module", "one "), part("module-2", "two ")} {
		s.create(o)
	}
	s.awaitMessage("mine", "ConfigMap longshore/module-3 does not exist")
	s.create(part("module-3", "three"))
	s.awaitHostname("one two three")
	s.awaitReady("mine", "True Bound", newCustom("one two three").Digest())

	// The previous version decides until all parts are stored, in any order.
	require.NoError(t, s.Admin.Update(t.Context(), part("module-2", "zwei ")))
	s.awaitReady("mine", "False ModuleIncomplete", newCustom("one two three").Digest())
	s.awaitHostname("one two three")
	policy := s.policy(s.t, "mine")
	before := policy.DeepCopy()
	policy.Spec.Module.ConfigMap.Digest = digest("eins zwei three")
	require.NoError(t, s.Admin.Patch(t.Context(), policy, client.MergeFrom(before)))
	s.eventually(func(t planetest.T) bool {
		p := s.policy(t, "mine")
		return p.Status.ObservedGeneration == p.Generation
	}, "the digest is observed")
	s.awaitHostname("one two three")
	require.NoError(t, s.Admin.Update(t.Context(), part("module", "eins ")))
	s.awaitHostname("eins zwei three")
	s.awaitReady("mine", "True Bound", newCustom("eins zwei three").Digest())

	// Without a part, the previous version decides.
	require.NoError(t, s.Admin.Delete(t.Context(), part("module-3", "")))
	s.awaitReady("mine", "False ModuleNotFound", newCustom("eins zwei three").Digest())
	s.awaitHostname("eins zwei three")

	policy = object("bad", inParts("x"))
	policy.UID, policy.Generation, policy.CreationTimestamp = "", 0, metav1.Time{}
	policy.Spec.Module.ConfigMap.Digest = ""
	require.ErrorContains(t, s.Admin.Create(t.Context(), policy), "set digest with parts")
}
