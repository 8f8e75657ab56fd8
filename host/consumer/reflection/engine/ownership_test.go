package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestAConflictNamesTheKindOfTheRemoteObject(t *testing.T) {
	certificate := &unstructured.Unstructured{}
	certificate.SetKind("Certificate")
	assert.Equal(t, "Certificate", KindOf(certificate))
	facts := Facts{RemoteNamespace: "shop-rome", ProviderClusterID: "milan"}
	assert.Equal(t, "Secret web-token already exists in namespace shop-rome of cluster milan and is not managed by reflection. Rename one of the two, or delete the remote one.",
		NameConflict(facts, KindOf(&corev1.Secret{}), "web-token").Message)
}
