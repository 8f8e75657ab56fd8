package namespaceoffloading

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

func TestAMappingConcernsItsNamespace(t *testing.T) {
	withMappings := func(desired, current []string) *offloadingv1beta1.NamespaceMap {
		nm := &offloadingv1beta1.NamespaceMap{}
		nm.Spec.DesiredMapping, nm.Status.CurrentMapping = map[string]string{}, map[string]offloadingv1beta1.RemoteNamespaceStatus{}
		for _, name := range desired {
			nm.Spec.DesiredMapping[name] = name + "-rome"
		}
		for _, name := range current {
			nm.Status.CurrentMapping[name] = offloadingv1beta1.RemoteNamespaceStatus{RemoteNamespace: name + "-rome", Phase: offloadingv1beta1.MappingAccepted}
		}
		return nm
	}
	before := func() *offloadingv1beta1.NamespaceMap {
		return withMappings([]string{"a", "b", "c"}, []string{"a", "b"})
	}
	edited := func(edit func(*offloadingv1beta1.NamespaceMap)) *offloadingv1beta1.NamespaceMap {
		nm := before()
		edit(nm)
		return nm
	}
	now := metav1.Now()
	for name, tc := range map[string]struct {
		after *offloadingv1beta1.NamespaceMap
		want  []string
		all   bool
	}{
		"nothing":                   {after: before()},
		"mappings are added and go": {after: withMappings([]string{"b", "c", "d"}, []string{"a", "b", "c"}), want: []string{"a", "c", "d"}},
		"another name":              {after: edited(func(nm *offloadingv1beta1.NamespaceMap) { nm.Spec.DesiredMapping["c"] = "other" }), want: []string{"c"}},
		"another phase": {after: edited(func(nm *offloadingv1beta1.NamespaceMap) {
			nm.Status.CurrentMapping["b"] = offloadingv1beta1.RemoteNamespaceStatus{}
		}), want: []string{"b"}},
		"the labels say whose it is": {after: edited(func(nm *offloadingv1beta1.NamespaceMap) {
			nm.Labels = map[string]string{liqocorev1beta1.RemoteIDLabel: "milan"}
		}), all: true},
		"the NamespaceMap is withdrawn": {after: edited(func(nm *offloadingv1beta1.NamespaceMap) { nm.DeletionTimestamp = &now }), all: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := changedMappings(before(), tc.after)
			assert.Equal(t, tc.all, !ok)
			assert.Equal(t, tc.want, got)
		})
	}
}
