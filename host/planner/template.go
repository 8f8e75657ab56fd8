package planner

import (
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/host/forge/remote"
)

// Workload is an object that has pods, or a Pod.
type Workload struct{ Kind, Namespace, Name string }

// Template is a pod as the controller of an object creates it.
type Template struct {
	// Kind and Name of the object.
	Kind, Name string
	// Replicas is the number of pods; nil if the kind has none.
	Replicas *int32
	// Pod has the name of the object, since the suffix that controllers add is random.
	Pod *corev1.Pod
	// Claims are those that controllers create for the pod: of a StatefulSet's templates, and of
	// ephemeral volumes.
	Claims []*corev1.PersistentVolumeClaim
}

// TemplateOf returns the pod template of an object, and false for a kind without one. An object
// without a namespace is in the given one.
func TemplateOf(object runtime.Object, namespace string) (Template, bool) {
	switch o := object.(type) {
	case *corev1.Pod:
		pod := o.DeepCopy()
		if pod.Namespace == "" {
			pod.Namespace = namespace
		}
		// The planner asks where the pod may go, also for one that is scheduled already. A pod whose file names a
		// node goes there.
		if scheduled := condition(pod, corev1.PodScheduled); scheduled != nil && scheduled.Status == corev1.ConditionTrue {
			pod.Spec.NodeName = ""
		}
		pod.Status = corev1.PodStatus{}
		return Template{Kind: "Pod", Name: nameOf(o), Pod: pod, Claims: ephemeralClaims(pod)}, true
	case *appsv1.Deployment:
		return fromTemplate("Deployment", o, &o.Spec.Template, replicas(o.Spec.Replicas), namespace), true
	case *appsv1.ReplicaSet:
		return fromTemplate("ReplicaSet", o, &o.Spec.Template, replicas(o.Spec.Replicas), namespace), true
	case *corev1.ReplicationController:
		if o.Spec.Template == nil {
			return Template{}, false
		}
		return fromTemplate("ReplicationController", o, o.Spec.Template, replicas(o.Spec.Replicas), namespace), true
	case *appsv1.StatefulSet:
		return fromStatefulSet(o, namespace), true
	case *appsv1.DaemonSet:
		template := fromTemplate("DaemonSet", o, &o.Spec.Template, nil, namespace)
		template.Pod.Spec.Tolerations = append(template.Pod.Spec.Tolerations, daemonTolerations(&template.Pod.Spec)...)
		return template, true
	case *batchv1.Job:
		return fromTemplate("Job", o, &o.Spec.Template, replicas(o.Spec.Parallelism), namespace), true
	case *batchv1.CronJob:
		return fromTemplate("CronJob", o, &o.Spec.JobTemplate.Spec.Template, replicas(o.Spec.JobTemplate.Spec.Parallelism), namespace), true
	default:
		return Template{}, false
	}
}

func nameOf(object client.Object) string {
	if object.GetName() != "" {
		return object.GetName()
	}
	return object.GetGenerateName()
}

// replicas returns a number of pods with its default.
func replicas(count *int32) *int32 {
	if count == nil {
		one := int32(1)
		return &one
	}
	return count
}

func fromTemplate(kind string, owner client.Object, template *corev1.PodTemplateSpec, count *int32, namespace string) Template {
	if owner.GetNamespace() != "" {
		namespace = owner.GetNamespace()
	}
	from := template.DeepCopy()
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: nameOf(owner), Labels: from.Labels, Annotations: from.Annotations, Finalizers: from.Finalizers,
		},
		Spec: from.Spec,
	}
	return Template{Kind: kind, Name: pod.Name, Replicas: count, Pod: pod, Claims: ephemeralClaims(pod)}
}

// ephemeralClaims returns the claims that Kubernetes creates for the ephemeral volumes of a pod.
func ephemeralClaims(pod *corev1.Pod) []*corev1.PersistentVolumeClaim {
	var claims []*corev1.PersistentVolumeClaim
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if volume.Ephemeral == nil || volume.Ephemeral.VolumeClaimTemplate == nil {
			continue
		}
		claims = append(claims, &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: remote.EphemeralClaimName(pod.Name, volume.Name)}, Spec: volume.Ephemeral.VolumeClaimTemplate.Spec,
		})
	}
	return claims
}

// fromStatefulSet returns the first pod of a StatefulSet: its controller sets the name, the host
// name and the claims.
func fromStatefulSet(o *appsv1.StatefulSet, namespace string) Template {
	template := fromTemplate("StatefulSet", o, &o.Spec.Template, replicas(o.Spec.Replicas), namespace)
	pod := template.Pod
	first := int32(0)
	if o.Spec.Ordinals != nil {
		first = o.Spec.Ordinals.Start
	}
	pod.Name = fmt.Sprintf("%s-%d", o.Name, first)
	pod.Labels = maps.Clone(pod.Labels)
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[appsv1.StatefulSetPodNameLabel], pod.Labels[appsv1.PodIndexLabel] = pod.Name, fmt.Sprint(first)
	pod.Spec.Hostname, pod.Spec.Subdomain = pod.Name, o.Spec.ServiceName
	template.Claims = ephemeralClaims(pod)
	for i := range o.Spec.VolumeClaimTemplates {
		claim := &o.Spec.VolumeClaimTemplates[i]
		name := claim.Name + "-" + pod.Name
		created := claim.DeepCopy()
		created.Name = name
		template.Claims = append(template.Claims, created)
		volume := corev1.Volume{Name: claim.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}}
		replaced := false
		for j := range pod.Spec.Volumes {
			if pod.Spec.Volumes[j].Name == claim.Name {
				pod.Spec.Volumes[j], replaced = volume, true
			}
		}
		if !replaced {
			pod.Spec.Volumes = append(pod.Spec.Volumes, volume)
		}
	}
	return template
}

// daemonTolerations are those that the controller of DaemonSets adds to its pods.
func daemonTolerations(spec *corev1.PodSpec) []corev1.Toleration {
	exists := func(key string, effect corev1.TaintEffect) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
	}
	tolerations := []corev1.Toleration{
		exists(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute),
		exists(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute),
		exists(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule),
		exists(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule),
		exists(corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule),
		exists(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule),
	}
	if spec.HostNetwork {
		tolerations = append(tolerations, exists(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule))
	}
	return tolerations
}

// missingFields returns the fields that the API server requires of every pod and that a mistyped
// manifest lacks. The other rules of its validation depend on the cluster's version.
func missingFields(pod *corev1.Pod) field.ErrorList {
	var missing field.ErrorList
	spec := field.NewPath("spec")
	if len(pod.Spec.Containers) == 0 {
		missing = append(missing, field.Required(spec.Child("containers"), ""))
	}
	missing = append(missing, missingOf(spec.Child("initContainers"), pod.Spec.InitContainers)...)
	return append(missing, missingOf(spec.Child("containers"), pod.Spec.Containers)...)
}

func missingOf(path *field.Path, containers []corev1.Container) field.ErrorList {
	var missing field.ErrorList
	for i := range containers {
		if containers[i].Name == "" {
			missing = append(missing, field.Required(path.Index(i).Child("name"), ""))
		}
		if containers[i].Image == "" {
			missing = append(missing, field.Required(path.Index(i).Child("image"), ""))
		}
	}
	return missing
}
