package planner

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
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
	unreadable map[inventoryKey]bool
	objects    map[inventoryKey]*metav1.PartialObjectMetadata
	services   map[string][]*corev1.Service
	claims     map[inventoryKey]*corev1.PersistentVolumeClaim
	classes    map[string]*storagev1.StorageClass
	// networkPolicies by namespace.
	networkPolicies map[string][]*networkingv1.NetworkPolicy
}

// NewInventory returns an empty inventory. A complete one has all objects of the cluster, so
// that an object that it does not have does not exist.
func NewInventory(isComplete bool) *Inventory {
	return &Inventory{
		isComplete: isComplete, objects: map[inventoryKey]*metav1.PartialObjectMetadata{}, services: map[string][]*corev1.Service{},
		claims: map[inventoryKey]*corev1.PersistentVolumeClaim{}, classes: map[string]*storagev1.StorageClass{},
		unreadable: map[inventoryKey]bool{}, networkPolicies: map[string][]*networkingv1.NetworkPolicy{},
	}
}

// AddUnreadable adds an object that the user may not read. It is taken for one that follows the pod.
func (v *Inventory) AddUnreadable(kind, namespace, name string) {
	v.unreadable[inventoryKey{kind, namespace, name}] = true
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

// localReferences lists the objects of the consumer that the remote pod refers to. The ShadowPod is
// nil if it is not known; a pod that is not changed by policies refers to the same objects.
func localReferences(pod *corev1.Pod, shadow *offloadingv1beta1.ShadowPod, homeClusterID string) []Reference {
	local := references(&pod.Spec)
	if shadow == nil {
		for i := range pod.Spec.Volumes {
			if volume := &pod.Spec.Volumes[i]; volume.Ephemeral != nil {
				local = append(local, Reference{Kind: kindClaim, Name: remote.EphemeralClaimName(pod.Name, volume.Name)})
			}
		}
		return local
	}
	origin := remote.Origin{HomeClusterID: homeClusterID}
	var list []Reference
	for _, r := range references(&shadow.Spec.Pod) {
		if r.Kind == kindSecret && r.Name == remote.TokenSecretName(pod.Name) && !slices.Contains(local, r) {
			continue // The virtual kubelet creates the Secret with the tokens of the pod.
		}
		if r.Kind == kindConfigMap {
			r.Name = remote.LocalConfigMapName(r.Name, origin)
		}
		list = append(list, r)
	}
	return list
}

// follow lists the objects that the remote pod refers to, and the Services that select it. NetworkPolicies that
// select it do not follow, which is a warning.
// The claims are those that the controller of the pod creates.
func (p *Planner) follow(plan *Plan, claims []*corev1.PersistentVolumeClaim) {
	for _, r := range localReferences(plan.AdmittedPod, plan.ShadowPod, p.facts.HomeClusterID) {
		found := p.facts.Inventory.find(plan.Namespace, r, plan.node)
		if r.Kind == kindClaim {
			p.facts.Inventory.judgeClaim(&found, plan, claims)
		}
		plan.Follows = append(plan.Follows, found)
	}
	if plan.node != nil {
		if warning := p.facts.Inventory.DescribeNetworkPolicies(plan.AdmittedPod, string(plan.node.Spec.ClusterID)); warning != "" {
			plan.Warnings = append(plan.Warnings, warning)
		}
	}
	for _, service := range p.facts.Inventory.services[plan.Namespace] {
		if len(service.Spec.Selector) > 0 && labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(plan.AdmittedPod.Labels)) {
			plan.Follows = append(plan.Follows, p.facts.Inventory.find(plan.Namespace, Reference{Kind: kindService, Name: service.Name}, plan.node))
		}
	}
}

// find returns what becomes of an object that a pod on a virtual node, which may be nil, refers to.
func (v *Inventory) find(namespace string, r Reference, node *virtualNode) Follow {
	f := Follow{Kind: r.Kind, Name: r.Name, Optional: r.Optional, State: Reflected}
	key := inventoryKey{r.Kind, namespace, r.Name}
	object := v.objects[key]
	switch {
	case object != nil:
	case v.unreadable[key]:
		return f
	case r.Kind != kindConfigMap || r.Name != remote.RootCAConfigMapName: // every namespace has this one
		f.State, f.Why = Missing, "it does not exist"
		if !v.isComplete {
			f.Why = "it is not in the files"
		}
		return f
	}
	if why, who := node.keepsHere(r.Kind, object); why != "" {
		f.State, f.Why, f.who = NotReflected, why, who
	}
	return f
}

// Reference is an object that a pod spec names.
type Reference struct {
	Kind, Name string
	// Optional reports that the pod starts without the object.
	Optional bool
}

type referenceSet struct {
	list []Reference
	seen map[Reference]int
}

// add adds a reference once; it is optional if all references to the object are.
func (s *referenceSet) add(kind, name string, optional *bool) {
	if name == "" {
		return
	}
	isOptional := optional != nil && *optional
	key := Reference{Kind: kind, Name: name}
	if i, known := s.seen[key]; known {
		s.list[i].Optional = s.list[i].Optional && isOptional
		return
	}
	s.seen[key] = len(s.list)
	s.list = append(s.list, Reference{kind, name, isOptional})
}

// references lists the ConfigMaps, Secrets and claims that a pod spec names.
func references(spec *corev1.PodSpec) []Reference {
	s := &referenceSet{seen: map[Reference]int{}}
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
