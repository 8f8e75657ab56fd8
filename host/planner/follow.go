package planner

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

// Kinds of objects that pods refer to.
const (
	kindConfigMap = "ConfigMap"
	kindSecret    = "Secret"
	kindClaim     = "PersistentVolumeClaim"
	kindService   = "Service"
)

type inventoryKey struct{ kind, namespace, name string }

// Inventory has the objects that pods may refer to. It is read-only while it is used.
type Inventory struct {
	isComplete bool
	objects    map[inventoryKey]*metav1.PartialObjectMetadata
	services   map[string][]*corev1.Service
	claims     map[inventoryKey]*corev1.PersistentVolumeClaim
	classes    map[string]*storagev1.StorageClass
}

// NewInventory returns an empty inventory. A complete one has all objects of the cluster, so
// that an object that it does not have does not exist.
func NewInventory(isComplete bool) *Inventory {
	return &Inventory{
		isComplete: isComplete, objects: map[inventoryKey]*metav1.PartialObjectMetadata{}, services: map[string][]*corev1.Service{},
		claims: map[inventoryKey]*corev1.PersistentVolumeClaim{}, classes: map[string]*storagev1.StorageClass{},
	}
}

// Add adds the metadata of an object. It keeps no data of Secrets.
func (v *Inventory) Add(kind string, meta metav1.ObjectMeta) {
	v.objects[inventoryKey{kind, meta.Namespace, meta.Name}] = &metav1.PartialObjectMetadata{ObjectMeta: meta}
}

// AddMissing adds the metadata of an object unless the inventory has it.
func (v *Inventory) AddMissing(kind string, meta metav1.ObjectMeta) {
	if v.objects[inventoryKey{kind, meta.Namespace, meta.Name}] == nil {
		v.Add(kind, meta)
	}
}

// AddService adds a Service unless the inventory has it.
func (v *Inventory) AddService(service *corev1.Service) {
	if v.objects[inventoryKey{kindService, service.Namespace, service.Name}] != nil {
		return
	}
	v.Add(kindService, service.ObjectMeta)
	v.services[service.Namespace] = append(v.services[service.Namespace], service)
}

// follow lists the objects that the remote pod refers to, and the Services that select it.
// The claims are those that the controller of the pod creates.
func (p *Planner) follow(plan *Plan, claims []*corev1.PersistentVolumeClaim) {
	spec, origin := &plan.AdmittedPod.Spec, remote.Origin{HomeClusterID: p.facts.HomeClusterID}
	if plan.ShadowPod != nil {
		spec = &plan.ShadowPod.Spec.Pod
	}
	local := references(&plan.AdmittedPod.Spec)
	for _, r := range references(spec) {
		if r.kind == kindSecret && r.name == remote.TokenSecretName(plan.AdmittedPod.Name) && !slices.Contains(local, r) {
			continue // The virtual kubelet creates the Secret with the tokens of the pod.
		}
		if r.kind == kindConfigMap {
			r.name = remote.LocalConfigMapName(r.name, origin)
		}
		found := p.facts.Inventory.find(plan.Namespace, r)
		if r.kind == kindClaim {
			p.facts.Inventory.judgeClaim(&found, plan, claims)
		}
		plan.Follows = append(plan.Follows, found)
	}
	for _, service := range p.facts.Inventory.services[plan.Namespace] {
		if len(service.Spec.Selector) > 0 && labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(plan.AdmittedPod.Labels)) {
			plan.Follows = append(plan.Follows, p.facts.Inventory.find(plan.Namespace, reference{kind: kindService, name: service.Name}))
		}
	}
}

// find returns what becomes of an object that a pod refers to.
func (v *Inventory) find(namespace string, r reference) Follow {
	f := Follow{Kind: r.kind, Name: r.name, Optional: r.optional, State: Reflected}
	if r.kind == kindConfigMap && r.name == remote.RootCAConfigMapName {
		return f // every namespace has one
	}
	object := v.objects[inventoryKey{r.kind, namespace, r.name}]
	skipped, err := false, error(nil)
	if object != nil {
		skipped, err = engine.IsSkipped(offloadingv1beta1.DenyList, object)
	}
	switch {
	case object == nil:
		f.State, f.Why = Missing, "it does not exist"
		if !v.isComplete {
			f.Why = "it is not in the files"
		}
	case err != nil:
		f.State, f.Why = NotReflected, err.Error()
	case skipped && r.kind != kindClaim:
		f.State, f.Why = NotReflected, "it has the annotation "+offloadingv1beta1.SkipReflectionAnnotation
	case r.kind == kindSecret && object.Annotations[corev1.ServiceAccountNameKey] != "":
		f.State, f.Why = NotReflected, "it is the token of a service account of this cluster"
	}
	return f
}

// reference is an object that a pod spec names.
type reference struct {
	kind, name string
	optional   bool
}

type referenceSet struct {
	list []reference
	seen map[reference]int
}

// add adds a reference once; it is optional if all references to the object are.
func (s *referenceSet) add(kind, name string, optional *bool) {
	if name == "" {
		return
	}
	isOptional := optional != nil && *optional
	key := reference{kind: kind, name: name}
	if i, known := s.seen[key]; known {
		s.list[i].optional = s.list[i].optional && isOptional
		return
	}
	s.seen[key] = len(s.list)
	s.list = append(s.list, reference{kind, name, isOptional})
}

// references lists the ConfigMaps, Secrets and claims that a pod spec names.
func references(spec *corev1.PodSpec) []reference {
	s := &referenceSet{seen: map[reference]int{}}
	yes := true
	for _, secret := range spec.ImagePullSecrets {
		s.add(kindSecret, secret.Name, &yes) // the kubelet pulls without a Secret that does not exist
	}
	for i := range spec.InitContainers {
		s.container(&spec.InitContainers[i])
	}
	for i := range spec.Containers {
		s.container(&spec.Containers[i])
	}
	for i := range spec.Volumes {
		s.volume(&spec.Volumes[i].VolumeSource)
	}
	return s.list
}

func (s *referenceSet) container(c *corev1.Container) {
	for i := range c.EnvFrom {
		if from := c.EnvFrom[i].ConfigMapRef; from != nil {
			s.add(kindConfigMap, from.Name, from.Optional)
		}
		if from := c.EnvFrom[i].SecretRef; from != nil {
			s.add(kindSecret, from.Name, from.Optional)
		}
	}
	for i := range c.Env {
		from := c.Env[i].ValueFrom
		if from == nil {
			continue
		}
		if key := from.ConfigMapKeyRef; key != nil {
			s.add(kindConfigMap, key.Name, key.Optional)
		}
		if key := from.SecretKeyRef; key != nil {
			s.add(kindSecret, key.Name, key.Optional)
		}
	}
}

func (s *referenceSet) volume(v *corev1.VolumeSource) {
	switch {
	case v.ConfigMap != nil:
		s.add(kindConfigMap, v.ConfigMap.Name, v.ConfigMap.Optional)
	case v.Secret != nil:
		s.add(kindSecret, v.Secret.SecretName, v.Secret.Optional)
	case v.PersistentVolumeClaim != nil:
		s.add(kindClaim, v.PersistentVolumeClaim.ClaimName, nil)
	case v.CSI != nil && v.CSI.NodePublishSecretRef != nil:
		s.add(kindSecret, v.CSI.NodePublishSecretRef.Name, nil)
	case v.Projected != nil:
		for i := range v.Projected.Sources {
			source := &v.Projected.Sources[i]
			if source.ConfigMap != nil {
				s.add(kindConfigMap, source.ConfigMap.Name, source.ConfigMap.Optional)
			}
			if source.Secret != nil {
				s.add(kindSecret, source.Secret.Name, source.Secret.Optional)
			}
		}
	}
}
