package quota

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
)

func TestTheUseOfTheFullestQuotaIsAMetric(t *testing.T) {
	of := func(name, granted, used string) *offloadingv1beta1.Quota {
		return &offloadingv1beta1.Quota{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: name},
			Spec:       offloadingv1beta1.QuotaSpec{User: name, Resources: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(granted), corev1.ResourcePods: {}}},
			Status:     offloadingv1beta1.QuotaStatus{Used: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(used), corev1.ResourceMemory: resource.MustParse("1Gi")}},
		}
	}
	usage := &Metrics{Reader: fakeclient.Builder(of("rome", "4", "3"), of("oslo", "8", "2")).Build()}
	require.NoError(t, testutil.CollectAndCompare(usage, strings.NewReader(`
# HELP longshore_quota_used_ratio Share of a resource that is used of the Quota with the least left of it.
# TYPE longshore_quota_used_ratio gauge
longshore_quota_used_ratio{resource="cpu"} 0.75
`)))
	assert.Empty(t, testutil.CollectAndCount(&Metrics{Reader: fakeclient.Builder().Build()}))
}
