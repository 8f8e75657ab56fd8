package webhook

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme"
)

func TestComponentsAreTheWebhookAndTheVirtualKubelets(t *testing.T) {
	s, err := scheme.New()
	require.NoError(t, err)
	reader := fake.NewClientBuilder().WithScheme(s).WithObjects(
		&offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan"}},
	).Build()
	names, err := components{reader: reader}.list(t.Context())
	require.NoError(t, err)
	assert.Equal(t, map[string]bool{"webhook": true, "virtual-kubelet/milan": true}, names)
}
