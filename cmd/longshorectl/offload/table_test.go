package offload

import (
	"io"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output/outputtest"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

func TestTablesOfNamespacesFitATerminal(t *testing.T) {
	spec := offloadingv1beta1.NamespaceOffloadingSpec{
		PodOffloadingStrategy:    offloadingv1beta1.LocalAndRemotePodOffloadingStrategyType,
		NamespaceMappingStrategy: offloadingv1beta1.EnforceSameNameMappingStrategyType,
	}
	required := []offloadingv1beta1.RemoteNamespaceCondition{{Type: offloadingv1beta1.NamespaceOffloadingRequired, Status: corev1.ConditionTrue}}
	failed := append(slices.Clone(required), offloadingv1beta1.RemoteNamespaceCondition{
		Type: offloadingv1beta1.NamespaceReady, Status: corev1.ConditionFalse, Reason: "RemoteNamespaceCreating", Message: "The namespace exists.",
	})
	objects := []*offloadingv1beta1.NamespaceOffloading{object("shop", spec), object(outputtest.Long, spec)}
	for _, nso := range objects {
		nso.Status.OffloadingPhase, nso.Status.RemoteNamespaceName = offloadingv1beta1.SomeFailedOffloadingPhaseType, nso.Namespace+"-rome"
		nso.Status.RemoteNamespacesConditions = map[string]offloadingv1beta1.RemoteNamespaceConditions{"milan": required, outputtest.Long: failed}
	}
	for name, isWide := range map[string]bool{"offload": false, "offload-wide": true} {
		outputtest.Table(t, name, isWide, func(w io.Writer, _ output.Style) error { return printTable(w, objects, isWide) })
	}
}
