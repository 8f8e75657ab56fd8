package remote_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/longshore-dev/longshore/host/forge/remote"
)

func TestPersistentVolumeClaim(t *testing.T) {
	claim := func(changes ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data-db-0", UID: "u1"},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: ptr.To("liqo"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}
		for _, change := range changes {
			change(c)
		}
		return c
	}
	annotated := func(key, value string) func(*corev1.PersistentVolumeClaim) {
		return func(c *corev1.PersistentVolumeClaim) { c.Annotations = map[string]string{key: value} }
	}
	const plain = `{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}},"storageClassName":"fast","volumeMode":"Filesystem"}`
	for name, tc := range map[string]struct {
		claim     *corev1.PersistentVolumeClaim
		class     string
		want, err string
	}{
		"the class that is offered": {claim(), "fast", plain, ""},
		"the default class of the provider": {claim(), "",
			`{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}},"volumeMode":"Filesystem"}`, ""},
		"the class of the annotation": {claim(annotated("liqo.io/remote-storage-class", "gold")), "fast",
			`{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}},"storageClassName":"gold","volumeMode":"Filesystem"}`, ""},
		"the access modes of the annotation": {claim(annotated("liqo.io/remote-access-modes", "ReadWriteMany, ReadOnlyMany")), "fast",
			`{"accessModes":["ReadWriteMany","ReadOnlyMany"],"resources":{"requests":{"storage":"1Gi"}},"storageClassName":"fast","volumeMode":"Filesystem"}`, ""},
		"an unknown access mode":                          {claim(annotated("liqo.io/remote-access-modes", "RWO")), "fast", "", `unknown access mode "RWO"`},
		"an empty annotation keeps the claim's own modes": {claim(annotated("liqo.io/remote-access-modes", "")), "fast", plain, ""},
		"an empty mode in a list":                         {claim(annotated("liqo.io/remote-access-modes", "ReadWriteOnce,")), "fast", "", `unknown access mode ""`},
		"limits and volume mode": {claim(func(c *corev1.PersistentVolumeClaim) {
			c.Spec.VolumeMode, c.Spec.Resources.Limits = ptr.To(corev1.PersistentVolumeBlock), c.Spec.Resources.Requests
		}), "fast", `{"accessModes":["ReadWriteOnce"],"resources":{"limits":{"storage":"1Gi"},"requests":{"storage":"1Gi"}},"storageClassName":"fast","volumeMode":"Block"}`, ""},
		"what names objects of the consumer is dropped": {claim(func(c *corev1.PersistentVolumeClaim) {
			c.Spec.VolumeName, c.Spec.VolumeAttributesClassName, c.Spec.Selector = "pvc-u1", ptr.To("x"), &metav1.LabelSelector{}
			c.Spec.DataSource, c.Spec.DataSourceRef = &corev1.TypedLocalObjectReference{Name: "x"}, &corev1.TypedObjectReference{Name: "x"}
		}), "fast", plain, ""},
	} {
		t.Run(name, func(t *testing.T) {
			labels := map[string]string{"app": "db", "storage.longshore.dev/cluster": "milan", "storage.longshore.dev/remote-claim": "Requested"}
			annotations := map[string]string{
				"team": "x", "pv.kubernetes.io/bind-completed": "yes", "volume.kubernetes.io/selected-node": "milan-1",
				"volume.beta.kubernetes.io/storage-class": "liqo", "storage.longshore.dev/reclaim-policy": "Retain",
			}
			got, err := remote.PersistentVolumeClaim(tc.claim, "shop-rome", labels, annotations, remote.Origin{HomeClusterID: "rome", ProviderClusterID: "milan"}, tc.class)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, "data-db-0", *got.Name)
			assert.Equal(t, "shop-rome", *got.Namespace)
			assert.Equal(t, map[string]string{"app": "db", "offloading.liqo.io/origin": "rome", "offloading.liqo.io/destination": "milan"}, got.Labels)
			assert.Equal(t, map[string]string{"team": "x", "storage.longshore.dev/reclaim-policy": "Retain", "storage.longshore.dev/claim-uid": "u1"}, got.Annotations)
			assert.Len(t, labels, 3, "arguments are not changed")
			assert.Len(t, annotations, 5, "arguments are not changed")
			spec, err := json.Marshal(got.Spec)
			require.NoError(t, err)
			assert.JSONEq(t, tc.want, string(spec))
		})
	}
}
