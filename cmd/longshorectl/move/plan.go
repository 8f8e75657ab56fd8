package move

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/podend"
)

const (
	// sourceAnnotation is on a claim that is a copy: the UID of its source. Only such a claim is
	// written.
	sourceAnnotation = "longshore.dev/moved-from"
	// copiedAnnotation is on a copy that was compared with its source: the digest of both.
	copiedAnnotation = "longshore.dev/copied"
	// virtualProvisioner creates volumes in the cluster of their first pod.
	virtualProvisioner = "liqo.io/storage"
	// podLabel is on the pods of a copy.
	podLabel = "longshore.dev/copies-volume"
	// selectedNodeAnnotation is on a claim whose volume was created where its first pod was scheduled:
	// the name of that node.
	selectedNodeAnnotation = "volume.kubernetes.io/selected-node"
	// mountPath is where these pods have the volume.
	mountPath = "/volume"
)

// found is what the cluster has of what a copy needs.
type found struct {
	source *corev1.PersistentVolumeClaim
	// target is the claim with the new name, or nil.
	target    *corev1.PersistentVolumeClaim
	namespace *corev1.Namespace
	node      *corev1.Node
	// sourceNode is the node for which the volume was created, or nil.
	sourceNode *corev1.Node
	// strategy of the namespace's pods, or "" if it is not offloaded.
	strategy offloadingv1beta1.PodOffloadingStrategyType
	// class of the copy, or nil.
	class *storagev1.StorageClass
	// pods of the namespace.
	pods []corev1.Pod
}

// request is what the command line asks for.
type request struct {
	namespace, source, target, node string
}

// problem returns why a volume cannot be copied and what to do, or "". It is pure.
func (f *found) problem(r request) string {
	source := f.source
	switch {
	case r.source == r.target:
		return "a claim cannot be its own copy: set --to to another name"
	case !source.DeletionTimestamp.IsZero():
		return fmt.Sprintf("claim %s is being deleted", r.source)
	case source.Status.Phase != corev1.ClaimBound:
		return fmt.Sprintf("claim %s is %s and has no data: delete it, and create it where it is needed", r.source, phase(source))
	case ptr.Deref(source.Spec.VolumeMode, corev1.PersistentVolumeFilesystem) != corev1.PersistentVolumeFilesystem:
		return fmt.Sprintf("claim %s is a block device, of which no files can be copied", r.source)
	case !slices.ContainsFunc(source.Spec.AccessModes, writes):
		return fmt.Sprintf("claim %s has the access modes %v, with which a copy cannot be written", r.source, source.Spec.AccessModes)
	}
	if users := writers(f.pods, r.source); len(users) > 0 {
		return fmt.Sprintf("claim %s is mounted by %s, which could change it while it is copied: scale the workload to zero first", r.source, strings.Join(users, ", "))
	}
	if problem := f.placeProblem(r); problem != "" {
		return problem
	}
	return f.targetProblem(r)
}

// placeProblem returns why the node cannot have the copy, or "".
func (f *found) placeProblem(r request) string {
	virtual := isVirtual(f.node)
	switch {
	case f.class == nil:
		return fmt.Sprintf("claim %s has no storage class: set --storage-class", r.source)
	case virtual && f.class.Provisioner != virtualProvisioner:
		return fmt.Sprintf("storage class %s (%s) creates volumes in this cluster only, and node %s is another cluster: set --storage-class to one with the provisioner %s",
			f.class.Name, f.class.Provisioner, r.node, virtualProvisioner)
	case virtual && f.namespace.Labels[offloadingv1beta1.SchedulingEnabledLabel] != "true":
		return fmt.Sprintf("namespace %s is not offloaded: run longshorectl offload namespace %[1]s", r.namespace)
	}
	// The pods of the copy obey the strategy as all pods of the namespace do.
	nodes := []*corev1.Node{f.node}
	if f.sourceNode != nil {
		nodes = append(nodes, f.sourceNode)
	}
	for _, node := range nodes {
		if excludes(f.strategy, node) {
			return fmt.Sprintf("pods of namespace %s cannot run on node %s, since its strategy is %s: run longshorectl offload namespace %s --pod-offloading-strategy %s, and this command again",
				r.namespace, node.Name, f.strategy, r.namespace, offloadingv1beta1.LocalAndRemotePodOffloadingStrategyType)
		}
	}
	return ""
}

func isVirtual(node *corev1.Node) bool {
	return node.Labels[offloadingv1beta1.NodeTypeLabel] == offloadingv1beta1.NodeTypeVirtual
}

// excludes reports whether a strategy keeps pods off a node.
func excludes(strategy offloadingv1beta1.PodOffloadingStrategyType, node *corev1.Node) bool {
	switch strategy {
	case offloadingv1beta1.RemotePodOffloadingStrategyType:
		return !isVirtual(node)
	case offloadingv1beta1.LocalPodOffloadingStrategyType:
		return isVirtual(node)
	default:
		return false
	}
}

// targetProblem returns why the claim of the copy cannot be used, or "".
func (f *found) targetProblem(r request) string {
	target := f.target
	switch {
	case target == nil:
		return ""
	case target.Annotations[sourceAnnotation] != string(f.source.UID):
		return fmt.Sprintf("claim %s exists and is not a copy of %s: set --to to another name", r.target, r.source)
	case !target.DeletionTimestamp.IsZero():
		return fmt.Sprintf("claim %s is being deleted: wait, and run the command again", r.target)
	}
	if users := writers(f.pods, r.target); len(users) > 0 {
		return fmt.Sprintf("claim %s is mounted by %s", r.target, strings.Join(users, ", "))
	}
	if size := target.Spec.Resources.Requests.Storage(); size.Cmp(*sizeOf(f.source)) < 0 {
		return fmt.Sprintf("claim %s has %s, and claim %s needs %s: delete it, and run the command again", r.target, size, r.source, sizeOf(f.source))
	}
	return ""
}

func phase(claim *corev1.PersistentVolumeClaim) string {
	if claim.Status.Phase == "" {
		return string(corev1.ClaimPending)
	}
	return string(claim.Status.Phase)
}

func writes(mode corev1.PersistentVolumeAccessMode) bool { return mode != corev1.ReadOnlyMany }

// writers returns the pods that may write to a claim, except those of a copy.
func writers(pods []corev1.Pod, claim string) []string {
	var names []string
	for i := range pods {
		pod := &pods[i]
		if pod.Labels[podLabel] != "" || podend.IsTerminal(pod.Status.Phase) {
			continue
		}
		if slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim && !v.PersistentVolumeClaim.ReadOnly
		}) {
			names = append(names, "pod "+pod.Name)
		}
	}
	return names
}

// sizeOf returns the size that a copy needs: that of the volume, which may be larger than what
// was requested.
func sizeOf(claim *corev1.PersistentVolumeClaim) *resource.Quantity {
	requested, capacity := claim.Spec.Resources.Requests.Storage(), claim.Status.Capacity.Storage()
	if capacity.Cmp(*requested) > 0 {
		return capacity
	}
	return requested
}

// forgeTarget returns the claim of a copy.
func forgeTarget(source *corev1.PersistentVolumeClaim, name, class string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: source.Namespace, Labels: source.Labels,
			Annotations: map[string]string{sourceAnnotation: string(source.UID)},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: slices.DeleteFunc(slices.Clone(source.Spec.AccessModes), func(m corev1.PersistentVolumeAccessMode) bool { return !writes(m) }),
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: *sizeOf(source)}},
			VolumeMode:  source.Spec.VolumeMode, StorageClassName: &class,
		},
	}
}

// forgePod returns a pod that has a volume, and waits. It runs as root, since files keep their
// owners; of root's capabilities it has those that files need.
func forgePod(claim, namespace, role, image, node string, readOnly bool) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "longshore-copy-" + role + "-", Namespace: namespace, Labels: map[string]string{podLabel: role},
		},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: ptr.To[int64](1),
			AutomountServiceAccountToken: ptr.To(false), EnableServiceLinks: ptr.To(false),
			Tolerations: []corev1.Toleration{{Key: offloadingv1beta1.VirtualNodeTaintKey, Operator: corev1.TolerationOpExists}},
			Volumes: []corev1.Volume{{Name: "volume", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
			}}},
			Containers: []corev1.Container{{
				Name: containerName, Image: image, Command: []string{binary, "copy-volume", "wait"},
				VolumeMounts: []corev1.VolumeMount{{Name: "volume", MountPath: mountPath, ReadOnly: readOnly}},
				SecurityContext: &corev1.SecurityContext{
					RunAsUser: ptr.To[int64](0), RunAsNonRoot: ptr.To(false), AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID"}},
				},
			}},
		},
	}
	if node != "" {
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	}
	return pod
}
