package processnode

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

const (
	// tokenSeconds is the lifetime of a token if the pod does not set one.
	tokenSeconds = int64(3600)
	// renewAfter is the part of its lifetime after which a token is renewed, as the kubelet does.
	renewAfter = 0.8
)

// inputs gathers what a pod's processes are given: environment and folders. Volumes are
// written by one goroutine, the environment is read by several.
type inputs struct {
	client kubernetes.Interface
	config *rest.Config
	clock  clock.PassiveClock
	pod    *corev1.Pod
	// dir is the pod's folder; ip and hostIP its addresses.
	dir, ip, hostIP string

	// tokens that were asked for, and the files written into each volume.
	tokens  map[tokenKey]heldToken
	written map[string][]string

	mu                  sync.Mutex
	labels, annotations map[string]string
}

type tokenKey struct {
	audience string
	seconds  int64
}

type heldToken struct {
	value   []byte
	renewAt time.Time
}

func newInputs(p *provider, pod *corev1.Pod, dir, ip string) *inputs {
	in := &inputs{
		client: p.client, config: p.config, clock: p.options.Clock, pod: pod.DeepCopy(), dir: dir, ip: ip, hostIP: p.hostIP,
		tokens: map[tokenKey]heldToken{}, written: map[string][]string{},
	}
	in.setMetadata(pod)
	return in
}

// setMetadata takes over what may change of a running pod and is visible inside it.
func (in *inputs) setMetadata(pod *corev1.Pod) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.labels, in.annotations = maps.Clone(pod.Labels), maps.Clone(pod.Annotations)
}

// object names a ConfigMap or a Secret of the pod's namespace.
type object struct{ kind, name string }

const (
	kindConfigMap = "ConfigMap"
	kindSecret    = "Secret"
)

// sources lists the ConfigMaps and Secrets that a pod reads.
func sources(spec *corev1.PodSpec) map[object]bool {
	found := map[object]bool{}
	for i := range spec.Volumes {
		v := &spec.Volumes[i]
		if v.ConfigMap != nil {
			found[object{kindConfigMap, v.ConfigMap.Name}] = true
		}
		if v.Secret != nil {
			found[object{kindSecret, v.Secret.SecretName}] = true
		}
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			if source.ConfigMap != nil {
				found[object{kindConfigMap, source.ConfigMap.Name}] = true
			}
			if source.Secret != nil {
				found[object{kindSecret, source.Secret.Name}] = true
			}
		}
	}
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		environmentSources(&c, found)
	}
	return found
}

func environmentSources(c *corev1.Container, found map[object]bool) {
	for _, from := range c.EnvFrom {
		if from.ConfigMapRef != nil {
			found[object{kindConfigMap, from.ConfigMapRef.Name}] = true
		}
		if from.SecretRef != nil {
			found[object{kindSecret, from.SecretRef.Name}] = true
		}
	}
	for _, env := range c.Env {
		if env.ValueFrom == nil {
			continue
		}
		if ref := env.ValueFrom.ConfigMapKeyRef; ref != nil {
			found[object{kindConfigMap, ref.Name}] = true
		}
		if ref := env.ValueFrom.SecretKeyRef; ref != nil {
			found[object{kindSecret, ref.Name}] = true
		}
	}
}

// configMap reads a ConfigMap's data; found is false for an optional one that is missing.
func (in *inputs) configMap(ctx context.Context, name string, optional *bool) (data map[string][]byte, found bool, err error) {
	cm, err := in.client.CoreV1().ConfigMaps(in.pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, false, absent(err, optional, "configmap", name)
	}
	data = maps.Clone(cm.BinaryData)
	if data == nil {
		data = map[string][]byte{}
	}
	for key, value := range cm.Data {
		data[key] = []byte(value)
	}
	return data, true, nil
}

// secret reads a Secret's data; found is false for an optional one that is missing.
func (in *inputs) secret(ctx context.Context, name string, optional *bool) (data map[string][]byte, found bool, err error) {
	secret, err := in.client.CoreV1().Secrets(in.pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, false, absent(err, optional, "secret", name)
	}
	return secret.Data, true, nil
}

func absent(err error, optional *bool, kind, name string) error {
	if apierrors.IsNotFound(err) && ptr.Deref(optional, false) {
		return nil
	}
	return fmt.Errorf("reading %s %q: %w", kind, name, err)
}

// token returns a token that ends with the pod, and asks for a new one when the one at
// hand is near its end.
func (in *inputs) token(ctx context.Context, audience string, seconds *int64) ([]byte, error) {
	key := tokenKey{audience, ptr.Deref(seconds, tokenSeconds)}
	now := in.clock.Now()
	if held, ok := in.tokens[key]; ok && now.Before(held.renewAt) {
		return held.value, nil
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &key.seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: in.pod.Name, UID: in.pod.UID},
	}}
	if audience != "" {
		request.Spec.Audiences = []string{audience}
	}
	name := in.pod.Spec.ServiceAccountName
	if name == "" {
		name = "default"
	}
	answer, err := in.client.CoreV1().ServiceAccounts(in.pod.Namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("asking for a token of service account %q: %w", name, err)
	}
	life := answer.Status.ExpirationTimestamp.Sub(now)
	held := heldToken{value: []byte(answer.Status.Token), renewAt: now.Add(time.Duration(renewAfter * float64(life)))}
	in.tokens[key] = held
	return held.value, nil
}

// untilRenewal is when a token must be renewed next; more than a day when the pod has none.
func (in *inputs) untilRenewal() time.Duration {
	next := 24 * time.Hour
	for _, held := range in.tokens {
		next = min(next, held.renewAt.Sub(in.clock.Now()))
	}
	return max(next, retryInputs)
}

// field resolves a path of the downward API.
func (in *inputs) field(fieldPath string) (string, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if base, key, ok := strings.Cut(strings.TrimSuffix(fieldPath, "']"), "['"); ok {
		switch base {
		case "metadata.labels":
			return in.labels[key], nil
		case "metadata.annotations":
			return in.annotations[key], nil
		}
	}
	switch fieldPath {
	case "metadata.labels":
		return formatMap(in.labels), nil
	case "metadata.annotations":
		return formatMap(in.annotations), nil
	}
	value, ok := map[string]string{
		"metadata.name": in.pod.Name, "metadata.namespace": in.pod.Namespace, "metadata.uid": string(in.pod.UID),
		"spec.nodeName": in.pod.Spec.NodeName, "spec.serviceAccountName": in.pod.Spec.ServiceAccountName,
		"status.podIP": in.ip, "status.podIPs": in.ip, "status.hostIP": in.hostIP, "status.hostIPs": in.hostIP,
	}[fieldPath]
	if !ok {
		return "", fmt.Errorf("the process node knows no field %q", fieldPath)
	}
	return value, nil
}

// formatMap writes a map as the downward API does: a line KEY="VALUE" each, sorted.
func formatMap(m map[string]string) string {
	lines := make([]string, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		lines = append(lines, fmt.Sprintf("%s=%q", key, m[key]))
	}
	return strings.Join(lines, "\n")
}

var errNoResourceField = errors.New("the process node knows no resourceFieldRef: processes have no limits")
