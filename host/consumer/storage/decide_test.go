package storage

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

const (
	cluster = "storage.longshore.dev/cluster"
	state   = "storage.longshore.dev/remote-claim"
	policy  = "storage.longshore.dev/reclaim-policy"
	holds   = "storage.longshore.dev/remote-claim"
)

// scheduled returns the facts of a claim of shop, which is offloaded to milan, whose pod is
// scheduled to a node.
func scheduled(node *corev1.Node, changes ...func(*facts)) *facts {
	f := &facts{
		claim: &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data-db-0", UID: "u1", Labels: map[string]string{}, Annotations: map[string]string{
				selectedNodeAnnotation: node.Name, provisionerAnnotation: "liqo.io/storage",
			}},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: ptr.To("liqo"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		},
		class: &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: "liqo"}, Provisioner: "liqo.io/storage",
			VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
		},
		node: node, offloadedTo: []string{"milan"}, namespace: "liqo-storage", realClass: "disk",
		virtualNode: &offloadingv1beta1.VirtualNode{Spec: offloadingv1beta1.VirtualNodeSpec{StorageClasses: []authv1beta1.StorageType{{StorageClassName: "fast"}}}},
	}
	for _, change := range changes {
		change(f)
	}
	return f
}

func virtual() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan-1", Labels: map[string]string{"liqo.io/type": "virtual-node", "liqo.io/remote-cluster-id": "milan"}}}
}

func worker() *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}} }

func labeled(value string) func(*facts) {
	return func(f *facts) { f.claim.Labels[cluster], f.claim.Labels[state] = "milan", value }
}

func annotated(key, value string) func(*facts) {
	return func(f *facts) { f.claim.Annotations[key] = value }
}

func pointers(values map[string]string) map[string]*string {
	out := map[string]*string{}
	for key, value := range values {
		out[key] = &value
	}
	return out
}

func TestClaimsOfPodsOnVirtualNodes(t *testing.T) {
	for name, tc := range map[string]struct {
		facts *facts
		want  decision
		event string
	}{
		"a new claim requests a remote claim": {
			scheduled(virtual()), decision{
				labels: pointers(map[string]string{cluster: "milan", state: "Requested"}), annotations: pointers(map[string]string{policy: "Delete"}), addFinalizer: true,
			}, "Provisioning",
		},
		"the reclaim policy is that of the class": {
			scheduled(virtual(), func(f *facts) { f.class.ReclaimPolicy = ptr.To(corev1.PersistentVolumeReclaimRetain) }), decision{
				labels: pointers(map[string]string{cluster: "milan", state: "Requested"}), annotations: pointers(map[string]string{policy: "Retain"}), addFinalizer: true,
			}, "Provisioning",
		},
		"a requested claim waits":               {scheduled(virtual(), labeled("Requested")), decision{}, ""},
		"a claim with a volume waits":           {scheduled(virtual(), labeled("Created"), func(f *facts) { f.volume = forgePlaceholder(f.claim, f.class, "milan") }), decision{}, ""},
		"a claim whose Node is gone waits":      {scheduled(virtual(), func(f *facts) { f.node = nil }), decision{}, ""},
		"a claim without selected node waits":   {scheduled(virtual(), annotated(selectedNodeAnnotation, "")), decision{}, ""},
		"a claim that gets an existing volume":  {scheduled(virtual(), annotated(provisionerAnnotation, "")), decision{}, ""},
		"a claim of another provisioner":        {scheduled(virtual(), func(f *facts) { f.class.Provisioner = "csi" }), decision{}, ""},
		"a claim without class":                 {scheduled(virtual(), func(f *facts) { f.class = nil }), decision{}, ""},
		"a class with another binding mode":     {scheduled(virtual(), func(f *facts) { f.class.VolumeBindingMode = nil }), decision{}, "ProvisioningFailed"},
		"a selector":                            {scheduled(virtual(), func(f *facts) { f.claim.Spec.Selector = &metav1.LabelSelector{} }), decision{}, "ProvisioningFailed"},
		"a data source":                         {scheduled(virtual(), func(f *facts) { f.claim.Spec.DataSourceRef = &corev1.TypedObjectReference{} }), decision{}, "ProvisioningFailed"},
		"a volume attributes class":             {scheduled(virtual(), func(f *facts) { f.claim.Spec.VolumeAttributesClassName = ptr.To("gold") }), decision{}, "ProvisioningFailed"},
		"an unknown access mode":                {scheduled(virtual(), annotated("liqo.io/remote-access-modes", "ReadWriteTwice")), decision{}, "ProvisioningFailed"},
		"a namespace that is not offloaded":     {scheduled(virtual(), func(f *facts) { f.offloadedTo = []string{"oslo"} }), decision{}, "ProvisioningFailed"},
		"a virtual node without storage":        {scheduled(virtual(), func(f *facts) { f.virtualNode.Spec.StorageClasses = nil }), decision{annotations: map[string]*string{selectedNodeAnnotation: nil}}, "ReschedulingRequired"},
		"a virtual node that was deleted":       {scheduled(virtual(), func(f *facts) { f.virtualNode = nil }), decision{annotations: map[string]*string{selectedNodeAnnotation: nil}}, "ReschedulingRequired"},
		"a remote class that is not offered":    {scheduled(virtual(), annotated("liqo.io/remote-storage-class", "gold")), decision{annotations: map[string]*string{selectedNodeAnnotation: nil}}, "ReschedulingRequired"},
		"a remote class that is offered":        {scheduled(virtual(), labeled("Requested"), annotated("liqo.io/remote-storage-class", "fast")), decision{}, ""},
		"a real claim of an earlier node":       {scheduled(virtual(), func(f *facts) { f.realClaim = &corev1.PersistentVolumeClaim{} }), decision{deleteRealClaim: true}, ""},
		"a remote claim of another provider":    {scheduled(virtual(), labeled("Created"), func(f *facts) { f.claim.Labels[cluster], f.offloadedTo = "oslo", []string{"milan", "oslo"} }), decision{labels: pointers(map[string]string{cluster: "oslo", state: "Deleting"})}, ""},
		"one of a provider that is not reached": {scheduled(virtual(), labeled("Created"), func(f *facts) { f.claim.Labels[cluster] = "oslo" }), decision{labels: map[string]*string{cluster: nil, state: nil}, removeFinalizer: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := decide(tc.facts)
			if tc.event == "" {
				require.Nil(t, got.event)
			} else {
				require.NotNil(t, got.event)
				assert.Equal(t, tc.event, got.event.reason)
			}
			got.event = nil
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestPlaceholderVolume(t *testing.T) {
	f := scheduled(virtual(), labeled("Created"), func(f *facts) { f.claim.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) })
	volume := decide(f).createVolume
	require.NotNil(t, volume)
	assert.Equal(t, "pvc-u1", volume.Name)
	assert.Equal(t, map[string]string{cluster: "milan"}, volume.Labels)
	assert.Equal(t, map[string]string{"pv.kubernetes.io/provisioned-by": "liqo.io/storage"}, volume.Annotations)
	assert.Equal(t, corev1.PersistentVolumeSpec{
		Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp/liqo-placeholder"}},
		AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		VolumeMode:                    ptr.To(corev1.PersistentVolumeBlock),
		StorageClassName:              "liqo",
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
		ClaimRef:                      &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: "shop", Name: "data-db-0", UID: "u1"},
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "liqo.io/remote-cluster-id", Operator: corev1.NodeSelectorOpIn, Values: []string{"milan"}}},
		}}}},
	}, volume.Spec)
}

func TestClaimsOfPodsOnOtherNodes(t *testing.T) {
	realClaim := func(phase corev1.PersistentVolumeClaimPhase, node string) func(*facts) {
		return func(f *facts) {
			f.realClaim = forgeRealClaim(f.claim, "liqo-storage", "disk")
			f.realClaim.Annotations[selectedNodeAnnotation], f.realClaim.Status.Phase = node, phase
		}
	}
	for name, tc := range map[string]struct {
		facts *facts
		want  decision
		event string
	}{
		"a real claim that is pending":                {scheduled(worker(), realClaim(corev1.ClaimPending, "worker")), decision{}, ""},
		"a real claim for another node":               {scheduled(worker(), realClaim(corev1.ClaimPending, "worker-2")), decision{deleteRealClaim: true}, ""},
		"a real claim whose volume is not cached yet": {scheduled(worker(), realClaim(corev1.ClaimBound, "worker")), decision{}, ""},
		"no class for real claims":                    {scheduled(worker(), func(f *facts) { f.realClassError = assert.AnError }), decision{}, "ProvisioningFailed"},
		"a remote claim of an earlier node":           {scheduled(worker(), labeled("Requested")), decision{labels: pointers(map[string]string{cluster: "milan", state: "Deleting"})}, ""},
		"one that is being deleted":                   {scheduled(worker(), labeled("Deleting")), decision{}, ""},
		"one that is deleted":                         {scheduled(worker(), labeled("Deleted")), decision{labels: map[string]*string{cluster: nil, state: nil}, removeFinalizer: true}, ""},
		"no offloading is needed":                     {scheduled(worker(), realClaim(corev1.ClaimPending, "worker"), func(f *facts) { f.offloadedTo, f.virtualNode = nil, nil }), decision{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := decide(tc.facts)
			if tc.event != "" {
				require.NotNil(t, got.event)
				assert.Equal(t, tc.event, got.event.reason)
			}
			got.event = nil
			assert.Equal(t, tc.want, got)
		})
	}

	created := decide(scheduled(worker(), func(f *facts) { f.claim.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) })).createRealClaim
	require.NotNil(t, created)
	assert.Equal(t, metav1.ObjectMeta{
		Namespace: "liqo-storage", Name: "u1",
		Labels: map[string]string{"storage.liqo.io/virtual-pvc-namespace": "shop", "storage.liqo.io/virtual-pvc-name": "data-db-0"},
		Annotations: map[string]string{
			"volume.kubernetes.io/selected-node": "worker", "volume.alpha.kubernetes.io/selected-node": "worker", claimAnnotation: "shop/data-db-0",
		},
	}, created.ObjectMeta)
	assert.Equal(t, "disk", *created.Spec.StorageClassName)
	assert.Equal(t, corev1.PersistentVolumeBlock, *created.Spec.VolumeMode)

	zone := corev1.NodeSelectorRequirement{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}
	volume := decide(scheduled(worker(), realClaim(corev1.ClaimBound, "worker"), func(f *facts) {
		f.realVolume = &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "disk.example.com", VolumeHandle: "v1"}},
			MountOptions:           []string{"noatime"}, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{zone}}}}},
		}}
	})).createVolume
	require.NotNil(t, volume)
	assert.Equal(t, "v1", volume.Spec.CSI.VolumeHandle)
	assert.Equal(t, []string{"noatime"}, volume.Spec.MountOptions)
	assert.Equal(t, corev1.PersistentVolumeReclaimDelete, volume.Spec.PersistentVolumeReclaimPolicy, "that of the virtual class")
	assert.Equal(t, resource.MustParse("2Gi"), volume.Spec.Capacity[corev1.ResourceStorage])
	assert.Empty(t, volume.Labels)
	noVirtualNode := corev1.NodeSelectorRequirement{Key: "liqo.io/type", Operator: corev1.NodeSelectorOpDoesNotExist}
	assert.Equal(t, []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{zone, noVirtualNode}}}, volume.Spec.NodeAffinity.Required.NodeSelectorTerms)
	assert.Equal(t, []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{noVirtualNode}}}, withoutVirtualNodes(nil).Required.NodeSelectorTerms)
}

// bound returns the facts of a claim that is bound to a volume in milan.
func bound(changes ...func(*facts)) *facts {
	return scheduled(virtual(), append([]func(*facts){labeled("Created"), annotated(policy, "Delete"), func(f *facts) {
		f.claim.Spec.VolumeName, f.claim.Finalizers = "pvc-u1", []string{claimProtectionFinalizer, holds}
		f.volume = forgePlaceholder(f.claim, f.class, "milan")
	}}, changes...)...)
}

func retained(f *facts) {
	f.volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
}

func TestBoundClaims(t *testing.T) {
	for name, tc := range map[string]struct {
		facts *facts
		want  decision
	}{
		"a claim that is complete":                      {bound(), decision{}},
		"another reclaim policy of the volume":          {bound(retained), decision{annotations: pointers(map[string]string{policy: "Retain"})}},
		"a namespace that is not offloaded any more":    {bound(func(f *facts) { f.offloadedTo = nil }), decision{removeFinalizer: true}},
		"a namespace that is offloaded again":           {bound(func(f *facts) { f.claim.Finalizers = nil }), decision{addFinalizer: true}},
		"a claim whose remote claim was lost":           {bound(labeled("Lost")), decision{}},
		"a new claim that was bound to retained data":   {bound(func(f *facts) { f.claim.Labels, f.claim.Finalizers = nil, nil }), decision{labels: pointers(map[string]string{cluster: "milan", state: "Created"}), addFinalizer: true}},
		"a volume in this cluster":                      {bound(func(f *facts) { f.volume.Labels = nil }), decision{}},
		"a volume of another provisioner":               {bound(func(f *facts) { f.volume.Annotations = nil; f.claim.Labels = nil }), decision{}},
		"a volume that is reserved for another claim":   {bound(func(f *facts) { f.volume.Spec.ClaimRef.UID = "u2" }), decision{}},
		"a volume that is not cached yet":               {bound(func(f *facts) { f.volume = nil }), decision{}},
		"a volume of which the claim has no policy yet": {bound(func(f *facts) { f.claim.Annotations = nil }), decision{annotations: pointers(map[string]string{policy: "Delete"})}},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, decide(tc.facts)) })
	}
}

// The remote claim is deleted only if the volume says so.
func TestDeletedClaims(t *testing.T) {
	unused := func(f *facts) {
		f.claim.DeletionTimestamp, f.claim.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{holds}
	}
	unbound := func(f *facts) { f.claim.Spec.VolumeName, f.volume = "", nil }
	remove, release := decision{labels: pointers(map[string]string{cluster: "milan", state: "Deleting"})}, decision{removeFinalizer: true}
	for name, tc := range map[string]struct {
		facts *facts
		want  decision
	}{
		"policy Delete":                          {bound(unused), remove},
		"policy Retain":                          {bound(unused, retained), release},
		"policy Recycle":                         {bound(unused, func(f *facts) { f.volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRecycle }), release},
		"a volume that was deleted":              {bound(unused, func(f *facts) { f.volume = nil }), release},
		"a volume of another provisioner":        {bound(unused, func(f *facts) { f.volume.Annotations = nil }), release},
		"a volume of another claim":              {bound(unused, func(f *facts) { f.volume.Spec.ClaimRef.UID = "u2" }), release},
		"a claim that a pod uses":                {bound(unused, func(f *facts) { f.claim.Finalizers = []string{claimProtectionFinalizer, holds} }), decision{}},
		"a claim that never had a volume":        {bound(unused, unbound), remove},
		"a volume with policy Retain, not bound": {bound(unused, retained, func(f *facts) { f.claim.Spec.VolumeName = "" }), release},
		"a remote claim that is being deleted":   {bound(unused, labeled("Deleting")), decision{}},
		"a remote claim that is deleted":         {bound(unused, labeled("Deleted")), release},
		"a namespace that is not offloaded":      {bound(unused, func(f *facts) { f.offloadedTo = nil }), release},
		"a claim without the finalizer":          {bound(unused, func(f *facts) { f.claim.Finalizers = nil }), decision{}},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, decide(tc.facts)) })
	}
}

func TestReclamation(t *testing.T) {
	f := bound()
	volume := func(changes ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
		v := forgeCopy(f.claim, f.class, &corev1.PersistentVolume{})
		v.Status.Phase = corev1.VolumeReleased
		for _, change := range changes {
			change(v)
		}
		return v
	}
	claim := func(phase corev1.PersistentVolumeClaimPhase) *corev1.PersistentVolumeClaim {
		c := forgeRealClaim(f.claim, "liqo-storage", "disk")
		c.Status.Phase = phase
		return c
	}
	others := claim(corev1.ClaimBound)
	others.Annotations = nil
	retain := func(v *corev1.PersistentVolume) {
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	}
	isBound := func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeBound }
	inMilan := func(v *corev1.PersistentVolume) { v.Labels = map[string]string{cluster: "milan"} }
	foreign := func(v *corev1.PersistentVolume) { v.Annotations = nil }
	for name, tc := range map[string]struct {
		volume   *corev1.PersistentVolume
		real     *corev1.PersistentVolumeClaim
		hasClaim bool
		want     reclamation
	}{
		"the real claim goes first":                        {volume(), claim(corev1.ClaimBound), false, reclamation{deleteRealClaim: true}},
		"then the volume":                                  {volume(), nil, false, reclamation{deleteVolume: true}},
		"a volume with data in a provider":                 {volume(inMilan), nil, false, reclamation{deleteVolume: true}},
		"policy Retain":                                    {volume(retain), claim(corev1.ClaimBound), false, reclamation{}},
		"policy Retain, with data in a provider":           {volume(retain, inMilan), nil, false, reclamation{}},
		"a volume that is bound":                           {volume(isBound), claim(corev1.ClaimBound), true, reclamation{}},
		"a volume of another provisioner":                  {volume(foreign), claim(corev1.ClaimBound), false, reclamation{}},
		"a real claim that is not that of the volume":      {volume(), others, false, reclamation{}},
		"a real claim whose claim was deleted too early":   {nil, claim(corev1.ClaimPending), false, reclamation{deleteRealClaim: true}},
		"a real claim that waits":                          {nil, claim(corev1.ClaimPending), true, reclamation{}},
		"a real claim whose volume was deleted, with data": {nil, claim(corev1.ClaimBound), false, reclamation{}},
		"nothing": {nil, nil, false, reclamation{}},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, decideReclamation(tc.volume, tc.real, tc.hasClaim)) })
	}
}

func TestRealClass(t *testing.T) {
	class := func(name, provisioner string, isDefault string, age int64) storagev1.StorageClass {
		return storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{
			Name: name, CreationTimestamp: metav1.Unix(age, 0), Annotations: map[string]string{defaultClassAnnotation: isDefault},
		}, Provisioner: provisioner}
	}
	classes := []storagev1.StorageClass{class("liqo", "liqo.io/storage", "true", 9), class("old", "csi", "true", 1), class("new", "csi", "true", 2), class("slow", "csi", "", 3)}
	for name, tc := range map[string]struct {
		configured string
		classes    []storagev1.StorageClass
		want, err  string
	}{
		"the newest default class that is not virtual": {"", classes, "new", ""},
		"the configured class":                         {"slow", classes, "slow", ""},
		"a configured class that does not exist":       {"gold", classes, "", `"gold"`},
		"a configured class that is virtual":           {"liqo", classes, "", "virtual"},
		"no default class":                             {"", classes[:1], "", "no default storage class"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := realClassOf(tc.configured, tc.classes)
			assert.Equal(t, tc.want, got)
			if tc.err == "" {
				require.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, tc.err)
		})
	}
}
