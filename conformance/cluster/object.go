package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// kind is one kind of reflected objects.
type kind struct {
	id, section, sentence string
	// local is the object, without its namespace; check compares the remote object.
	local client.Object
	check func(remote client.Object) error
}

const objectName = "settings"

var content = map[string]string{"color": "green"}

// testAddress is of the block for documentation, TEST-NET-3.
const testAddress = "203.0.113.7"

func kinds() []kind {
	meta := metav1.ObjectMeta{Name: objectName}
	port := corev1.ServicePort{Name: "db", Port: 5432}
	path := networkingv1.HTTPIngressPath{Path: "/shop", PathType: ptr.To(networkingv1.PathTypePrefix), Backend: networkingv1.IngressBackend{
		Service: &networkingv1.IngressServiceBackend{Name: objectName, Port: networkingv1.ServiceBackendPort{Number: port.Port}},
	}}
	rules := []networkingv1.IngressRule{{Host: "conformance.invalid", IngressRuleValue: networkingv1.IngressRuleValue{
		HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{path}},
	}}}
	return []kind{
		{id: "configmap", section: "4.6", sentence: "A ConfigMap of an offloaded namespace has a remote ConfigMap with its data.",
			local: &corev1.ConfigMap{ObjectMeta: meta, Data: content, BinaryData: map[string][]byte{"raw": {0, 1}}}, check: func(o client.Object) error {
				remote, ok := o.(*corev1.ConfigMap)
				return same("data", ok && reflect.DeepEqual(remote.Data, content) && reflect.DeepEqual(remote.BinaryData["raw"], []byte{0, 1}))
			}},
		{id: "secret", section: "4.7", sentence: "A Secret of an offloaded namespace has a remote Secret with its data and its type.",
			local: &corev1.Secret{ObjectMeta: meta, Type: "conformance.example/kind", Data: map[string][]byte{"key": []byte("value")}}, check: func(o client.Object) error {
				remote, ok := o.(*corev1.Secret)
				return same("data or type", ok && string(remote.Data["key"]) == "value" && remote.Type == "conformance.example/kind")
			}},
		{id: "service", section: "4.2", sentence: "A Service of an offloaded namespace has a remote Service with its ports; the provider allocates the address.",
			local: &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{port}}}, check: func(o client.Object) error {
				remote, ok := o.(*corev1.Service)
				return same("ports", ok && len(remote.Spec.Ports) == 1 && remote.Spec.Ports[0].Port == port.Port && remote.Spec.ClusterIP != "")
			}},
		{id: "ingress", section: "4.3", sentence: "An Ingress of an offloaded namespace has a remote Ingress with its rules.",
			local: &networkingv1.Ingress{ObjectMeta: meta, Spec: networkingv1.IngressSpec{Rules: rules}}, check: func(o client.Object) error {
				remote, ok := o.(*networkingv1.Ingress)
				return same("rules", ok && reflect.DeepEqual(remote.Spec.Rules, rules))
			}},
		// It belongs to the Service above, which has no selector.
		{id: "endpointslice", section: "4.4, 4.5", sentence: "An EndpointSlice of an offloaded namespace is an EndpointSlice of the provider, for endpoints that do not run there.",
			local: &discoveryv1.EndpointSlice{
				ObjectMeta:  metav1.ObjectMeta{Name: objectName, Labels: map[string]string{discoveryv1.LabelServiceName: objectName}},
				AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: ptr.To("db"), Port: ptr.To(port.Port)}},
				Endpoints: []discoveryv1.Endpoint{{Addresses: []string{testAddress}}},
			}, check: func(o client.Object) error {
				remote, ok := o.(*discoveryv1.EndpointSlice)
				// The address may be translated.
				return same("endpoints", ok && len(remote.Endpoints) == 1 && len(remote.Endpoints[0].Addresses) == 1 &&
					remote.Labels[offloadingv1beta1.ManagedByLabel] == offloadingv1beta1.ManagedByShadowEndpointSlice)
			}},
	}
}

func same(what string, ok bool) error {
	if ok {
		return nil
	}
	return fmt.Errorf("the remote object differs in its %s", what)
}

func (s *session) reflected(ctx context.Context, k kind) error {
	local, err := copyOf(k.local)
	if err != nil {
		return err
	}
	local.SetNamespace(s.Namespace)
	if err := s.create(ctx, local); err != nil {
		return err
	}
	remote, err := copyOf(k.local)
	if err != nil {
		return err
	}
	return s.until(ctx, func(ctx context.Context) error {
		if err := s.Provider.Get(ctx, client.ObjectKey{Namespace: s.remote, Name: objectName}, remote); err != nil {
			return fmt.Errorf("reading the remote object: %w", err)
		}
		return k.check(remote)
	})
}

func copyOf(object client.Object) (client.Object, error) {
	copied, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		return nil, fmt.Errorf("copying %T: not an object", object)
	}
	return copied, nil
}

// configMap is a ConfigMap of the local namespace.
func (s *session) configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}, Data: maps.Clone(content)}
}

// remoteConfigMap returns a ConfigMap of the remote namespace.
func (s *session) remoteConfigMap(ctx context.Context, name string) (*corev1.ConfigMap, error) {
	remote := &corev1.ConfigMap{}
	if err := s.Provider.Get(ctx, client.ObjectKey{Namespace: s.remote, Name: name}, remote); err != nil {
		return nil, fmt.Errorf("reading remote ConfigMap %s: %w", name, err)
	}
	return remote, nil
}

// untilRemote waits until a remote ConfigMap passes a check.
func (s *session) untilRemote(ctx context.Context, name string, check func(*corev1.ConfigMap) error) error {
	return s.until(ctx, func(ctx context.Context) error {
		remote, err := s.remoteConfigMap(ctx, name)
		if err != nil {
			return err
		}
		return check(remote)
	})
}

// patch changes a ConfigMap, and leaves what others write meanwhile.
func patch(ctx context.Context, c client.Client, object *corev1.ConfigMap, change func(*corev1.ConfigMap)) error {
	if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return fmt.Errorf("reading ConfigMap %s: %w", client.ObjectKeyFromObject(object), err)
	}
	before := object.DeepCopy()
	change(object)
	if err := c.Patch(ctx, object, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("changing ConfigMap %s: %w", client.ObjectKeyFromObject(object), err)
	}
	return nil
}

func (s *session) objectOwned(ctx context.Context) error {
	return s.untilRemote(ctx, objectName, func(remote *corev1.ConfigMap) error {
		return checkLabels("the remote ConfigMap", remote, s.ownership())
	})
}

func (s *session) objectUpdated(ctx context.Context) error {
	if err := patch(ctx, s.Consumer, s.configMap(objectName), func(c *corev1.ConfigMap) { c.Data["color"] = "blue" }); err != nil {
		return err
	}
	return s.untilRemote(ctx, objectName, hasColor("blue"))
}

func hasColor(want string) func(*corev1.ConfigMap) error {
	return func(remote *corev1.ConfigMap) error {
		if got := remote.Data["color"]; got != want {
			return fmt.Errorf("the remote ConfigMap has %q, want %q", got, want)
		}
		return nil
	}
}

func (s *session) objectRepaired(ctx context.Context) error {
	remote := s.configMap(objectName)
	remote.Namespace = s.remote
	if err := patch(ctx, s.Provider, remote, func(c *corev1.ConfigMap) { c.Data["color"] = "red" }); err != nil {
		return err
	}
	return s.untilRemote(ctx, objectName, hasColor("blue"))
}

// objectSkipped creates an object that is never sent, and one that is withdrawn. The second one shows
// that the first one was observed.
func (s *session) objectSkipped(ctx context.Context) error {
	never, later := s.configMap("never-sent"), s.configMap("withdrawn")
	never.Annotations = map[string]string{offloadingv1beta1.SkipReflectionAnnotation: "true"}
	if err := errors.Join(s.create(ctx, never), s.create(ctx, later)); err != nil {
		return err
	}
	if err := s.untilRemote(ctx, later.Name, hasColor("green")); err != nil {
		return err
	}
	if err := patch(ctx, s.Consumer, later, func(c *corev1.ConfigMap) {
		c.Annotations = map[string]string{offloadingv1beta1.SkipReflectionAnnotation: "true"}
	}); err != nil {
		return err
	}
	return s.until(ctx, func(ctx context.Context) error {
		for _, name := range []string{never.Name, later.Name} {
			if err := absent(ctx, s.Provider, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.remote, Name: name}}); err != nil {
				return err
			}
		}
		return nil
	})
}

// objectUnmanaged creates an object in the provider before that of the same name in the consumer.
func (s *session) objectUnmanaged(ctx context.Context) error {
	const name = "of-the-provider"
	theirs := s.configMap(name)
	theirs.Namespace = s.remote
	theirs.Data["color"] = "red"
	if err := s.Provider.Create(ctx, theirs); err != nil {
		return fmt.Errorf("creating a ConfigMap in the provider: %w", err)
	}
	if err := s.create(ctx, s.configMap(name)); err != nil {
		return err
	}
	return s.until(ctx, func(ctx context.Context) error {
		remote, err := s.remoteConfigMap(ctx, name)
		if err != nil {
			return err
		}
		if remote.UID != theirs.UID || remote.Data["color"] != "red" || remote.Labels[offloadingv1beta1.OriginLabel] != "" {
			return errors.New("the ConfigMap of the provider was changed")
		}
		events := &corev1.EventList{}
		if err := s.Consumer.List(ctx, events, client.InNamespace(s.Namespace)); err != nil {
			return fmt.Errorf("listing events: %w", err)
		}
		for i := range events.Items {
			if events.Items[i].InvolvedObject.Name == name && events.Items[i].Reason == "FailedReflection" {
				return nil
			}
		}
		return errors.New("the local ConfigMap has no event FailedReflection")
	})
}

// metadataFiltered sends an object with the keys that the VirtualNodes of the provider list.
func (s *session) metadataFiltered(ctx context.Context) error {
	list := &offloadingv1beta1.VirtualNodeList{}
	if err := s.Consumer.List(ctx, list); err != nil {
		return fmt.Errorf("listing the VirtualNodes of the consumer: %w", err)
	}
	object := s.configMap("filtered")
	object.Labels, object.Annotations = map[string]string{"conformance/sent": "yes"}, map[string]string{"conformance/sent": "yes"}
	var labels, annotations []string
	for i := range list.Items {
		if patch := list.Items[i].Spec.OffloadingPatch; patch != nil && list.Items[i].Spec.ClusterID == s.providerID {
			labels, annotations = append(labels, patch.LabelsNotReflected...), append(annotations, patch.AnnotationsNotReflected...)
		}
	}
	if len(labels)+len(annotations) == 0 {
		return skip("no VirtualNode of the provider lists labels or annotations that are not reflected")
	}
	for _, key := range labels {
		object.Labels[key] = "kept"
	}
	for _, key := range annotations {
		object.Annotations[key] = "kept"
	}
	if err := s.create(ctx, object); err != nil {
		return err
	}
	return s.untilRemote(ctx, object.Name, func(remote *corev1.ConfigMap) error { return checkFiltered(remote, labels, annotations) })
}

// checkFiltered returns the keys of an object that must not be there, and those that must.
func checkFiltered(remote client.Object, labels, annotations []string) error {
	var errs []error
	for what, check := range map[string]struct {
		got    map[string]string
		absent []string
	}{"label": {remote.GetLabels(), labels}, "annotation": {remote.GetAnnotations(), annotations}} {
		if check.got["conformance/sent"] != "yes" {
			errs = append(errs, fmt.Errorf("the %s conformance/sent was not sent", what))
		}
		for _, key := range check.absent {
			if _, ok := check.got[key]; ok {
				errs = append(errs, fmt.Errorf("the %s %s was sent", what, key))
			}
		}
	}
	return errors.Join(errs...)
}

func (s *session) objectDeleted(ctx context.Context) error {
	object := s.configMap(objectName)
	if err := s.Consumer.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the local ConfigMap: %w", err)
	}
	object.Namespace = s.remote
	return s.until(ctx, func(ctx context.Context) error { return absent(ctx, s.Provider, object) })
}
