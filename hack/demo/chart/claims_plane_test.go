package chart_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// romeClaim is a claim as the virtual kubelet of rome creates it, changed.
func romeClaim(name string, change func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: name, Labels: maps.Clone(reflectedFromRome)},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: ptr.To("fast"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	if change != nil {
		change(claim)
	}
	return claim
}

// hostileClaims name what does not belong to the consumer.
var hostileClaims = map[string]func(*corev1.PersistentVolumeClaim){
	"a volume": func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "bank" },
	"volumes by label": func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "bank"}}
	},
	"volumes without a class": func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = ptr.To("") },
	"attributes of volumes":   func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = ptr.To("gold") },
	"a snapshot": func(c *corev1.PersistentVolumeClaim) {
		c.Spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: ptr.To("snapshot.storage.k8s.io"), Kind: "VolumeSnapshot", Name: "bank"}
	},
	"another namespace": func(c *corev1.PersistentVolumeClaim) {
		c.Spec.DataSourceRef = &corev1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: "bank", Namespace: ptr.To("shop-oslo")}
	},
	"a populator": func(c *corev1.PersistentVolumeClaim) {
		c.Spec.DataSourceRef = &corev1.TypedObjectReference{APIGroup: ptr.To("example.com"), Kind: "Populator", Name: "bank"}
	},
	"a provisioner": func(c *corev1.PersistentVolumeClaim) {
		c.Annotations = map[string]string{"volume.kubernetes.io/storage-provisioner": "example.com/bank"}
	},
	"a Node": func(c *corev1.PersistentVolumeClaim) {
		c.Annotations = map[string]string{"volume.kubernetes.io/selected-node": "milan"}
	},
	"a finished binding": func(c *corev1.PersistentVolumeClaim) {
		c.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
	},
	"too much": func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests["storage"] = resource.MustParse("17Ti")
	},
	"far too much": func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests["storage"] = resource.MustParse("999999999999999999")
	},
}

// testClaims has a consumer reach for volumes that do not belong to it.
func (p *provider) testClaims(t *testing.T, kubelet client.Client) {
	t.Helper()
	require.NoError(t, p.admin.Create(t.Context(), &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: "example.com/fast", AllowVolumeExpansion: ptr.To(true),
	}))
	isRefused := func(err error) bool {
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "longshore-claim")
	}
	planetest.Until(t, func(t planetest.T) bool {
		// The API server takes a moment to learn of the policy.
		err := kubelet.Create(t.Context(), romeClaim("early", hostileClaims["a volume"]))
		if err == nil {
			require.NoError(t, p.admin.Delete(t.Context(), romeClaim("early", nil)))
		}
		return isRefused(err)
	}, established, poll, "the policy is in effect")
	for what, hostile := range hostileClaims {
		name := strings.ReplaceAll(strings.ToLower(what), " ", "-")
		if what != "another namespace" { // The API server itself drops it.
			err := kubelet.Create(t.Context(), romeClaim(name, hostile))
			assert.True(t, isRefused(err), "a claim of %s: %v", what, err)
		}
		err := kubelet.Create(t.Context(), shadowPod(name, func(s *corev1.PodSpec) {
			claim := romeClaim("", hostile)
			s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
				VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{ObjectMeta: metav1.ObjectMeta{Annotations: claim.Annotations}, Spec: claim.Spec},
			}}}}
		}))
		assert.True(t, isRefused(err), "a template of %s: %v", what, err)
	}
	require.NoError(t, p.admin.Create(t.Context(), romeClaim("of-the-provider", hostileClaims["a volume"])), "an administrator may")

	require.NoError(t, kubelet.Create(t.Context(), romeClaim("source", nil)))
	require.NoError(t, kubelet.Create(t.Context(), romeClaim("clone", func(c *corev1.PersistentVolumeClaim) {
		c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "source"}
	})), "it clones its own claim")
	for what, patch := range map[string]string{
		"volume":     `{"spec":{"volumeName":"bank"}}`,
		"annotation": `{"metadata":{"annotations":{"pv.kubernetes.io/bind-completed":"yes"}}}`,
	} {
		err := kubelet.Patch(t.Context(), romeClaim("source", nil), client.RawPatch(types.MergePatchType, []byte(patch)))
		assert.True(t, isRefused(err), "%s: %v", what, err)
	}
	require.NoError(t, kubelet.Patch(t.Context(), romeClaim("source", nil), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"team":"x"}}}`))))

	// The volume controllers bind the claim, here by hand.
	require.NoError(t, p.admin.Create(t.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "made"},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: "fast", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			ClaimRef:               &corev1.ObjectReference{Namespace: "shop-rome", Name: "source"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "example.com", VolumeHandle: "made"}},
		},
	}))
	bound := &corev1.PersistentVolumeClaim{}
	planetest.Until(t, func(t planetest.T) bool {
		require.NoError(t, kubelet.Get(t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: "source"}, bound))
		return bound.Status.Phase == corev1.ClaimBound
	}, established, poll, "kube-controller-manager binds the claim")
	require.NotEmpty(t, bound.Annotations["pv.kubernetes.io/bind-completed"])
	resize := func(storage string) error {
		return kubelet.Patch(t.Context(), bound.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"resources":{"requests":{"storage":"`+storage+`"}}}}`)))
	}
	require.NoError(t, resize("2Gi"))
	err := resize("17Ti")
	assert.True(t, isRefused(err), "%v", err)
	err = kubelet.Patch(t.Context(), bound.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"pv.kubernetes.io/bind-completed":null}}}`)))
	assert.True(t, isRefused(err), "%v", err)
}

// testCertificateRequests has a consumer change its certificate request all the time, and pad it.
func (p *provider) testCertificateRequests(t *testing.T, control client.Client) {
	t.Helper()
	p.acceptedTenant(t)
	csr := func() []byte {
		key, err := authentication.NewKey()
		require.NoError(t, err)
		encoded, err := authentication.NewCSR(key, authentication.SliceSubject("rome", "requests"))
		require.NoError(t, err)
		return encoded
	}
	slice := &authv1beta1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "requests", Labels: map[string]string{
			liqocorev1beta1.ReplicatedLabel: "true", liqocorev1beta1.OriginIDLabel: "rome", liqocorev1beta1.RemoteClusterIDLabel: "rome",
		}},
		Spec: authv1beta1.ResourceSliceSpec{ConsumerClusterID: ptr.To(liqocorev1beta1.ClusterID("rome"))},
	}
	padded := slice.DeepCopy()
	padded.Spec.CSR = append(bytes.Repeat([]byte("padding\n"), 1<<17), csr()...)
	err := control.Create(t.Context(), padded)
	require.True(t, apierrors.IsInvalid(err), "%v", err)
	require.NoError(t, control.Create(t.Context(), slice))
	count := func(t planetest.T) int {
		requests := &certificatesv1.CertificateSigningRequestList{}
		require.NoError(t, p.admin.List(t.Context(), requests, client.MatchingLabels{liqocorev1beta1.RemoteClusterIDLabel: "rome"}))
		return len(requests.Items)
	}
	for range 60 {
		slice.Spec.CSR = csr()
		patch := fmt.Appendf(nil, `{"spec":{"csr":%q}}`, base64.StdEncoding.EncodeToString(slice.Spec.CSR))
		require.NoError(t, control.Patch(t.Context(), slice.DeepCopy(), client.RawPatch(types.MergePatchType, patch)))
		require.LessOrEqual(t, count(t), 1)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: slice.Namespace, Name: "liqo-remote-certificate-requests"}}
	planetest.Until(t, func(t planetest.T) bool {
		return p.admin.Get(t.Context(), client.ObjectKeyFromObject(secret), secret) == nil && bytes.Equal(secret.Data["csr"], slice.Spec.CSR) && count(t) == 0
	}, 2*established, poll, "the last request is signed, and no request is left")
	require.NoError(t, control.Delete(t.Context(), slice))
	planetest.Until(t, func(t planetest.T) bool {
		return apierrors.IsNotFound(p.admin.Get(t.Context(), client.ObjectKeyFromObject(secret), secret))
	}, 2*established, poll, "the Secret goes with the slice")
}
