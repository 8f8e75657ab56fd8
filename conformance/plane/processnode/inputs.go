package processnode

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
)

const (
	tokenSeconds  = int64(3600)
	kubeconfigEnv = "KUBECONFIG"
)

// inputs gathers what a pod's processes are given: environment and folders.
type inputs struct {
	client kubernetes.Interface
	config *rest.Config
	pod    *corev1.Pod
	// dir is the pod's folder; ip and hostIP its addresses.
	dir, ip, hostIP string
}

// volumes writes every volume's folder and returns the folders by volume name. It is
// called again to bring them up to date.
func (in *inputs) volumes(ctx context.Context) (map[string]string, error) {
	folders := map[string]string{}
	for i := range in.pod.Spec.Volumes {
		volume := &in.pod.Spec.Volumes[i]
		folder := filepath.Join(in.dir, "volumes", volume.Name)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, fmt.Errorf("making volume %q: %w", volume.Name, err)
		}
		files, err := in.files(ctx, volume)
		if err != nil {
			return nil, fmt.Errorf("volume %q: %w", volume.Name, err)
		}
		for name, content := range files {
			if err := writeFile(filepath.Join(folder, filepath.FromSlash(path.Clean("/"+name))), content); err != nil {
				return nil, fmt.Errorf("volume %q: %w", volume.Name, err)
			}
		}
		folders[volume.Name] = folder
	}
	return folders, nil
}

func writeFile(name string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	if err := os.WriteFile(name+".new", content, 0o600); err != nil {
		return fmt.Errorf("writing a file: %w", err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		return fmt.Errorf("writing a file: %w", err)
	}
	return nil
}

func (in *inputs) files(ctx context.Context, volume *corev1.Volume) (map[string][]byte, error) {
	switch {
	case volume.EmptyDir != nil:
		return nil, nil
	case volume.ConfigMap != nil:
		return in.configMap(ctx, volume.ConfigMap.Name, volume.ConfigMap.Items, volume.ConfigMap.Optional)
	case volume.Secret != nil:
		return in.secret(ctx, volume.Secret.SecretName, volume.Secret.Items, volume.Secret.Optional)
	case volume.Projected != nil:
		files := map[string][]byte{}
		for i := range volume.Projected.Sources {
			more, err := in.projection(ctx, &volume.Projected.Sources[i])
			if err != nil {
				return nil, err
			}
			maps.Copy(files, more)
		}
		return files, nil
	default:
		return nil, errors.New("the process node has no volumes of this type: use configMap, secret, projected or emptyDir")
	}
}

func (in *inputs) projection(ctx context.Context, source *corev1.VolumeProjection) (map[string][]byte, error) {
	switch {
	case source.ConfigMap != nil:
		return in.configMap(ctx, source.ConfigMap.Name, source.ConfigMap.Items, source.ConfigMap.Optional)
	case source.Secret != nil:
		return in.secret(ctx, source.Secret.Name, source.Secret.Items, source.Secret.Optional)
	case source.ServiceAccountToken != nil:
		token, err := in.token(ctx, source.ServiceAccountToken.Audience, source.ServiceAccountToken.ExpirationSeconds)
		return map[string][]byte{source.ServiceAccountToken.Path: token}, err
	case source.DownwardAPI != nil:
		files := map[string][]byte{}
		for _, item := range source.DownwardAPI.Items {
			if item.FieldRef == nil {
				return nil, errors.New("the process node knows no resourceFieldRef")
			}
			value, err := in.field(item.FieldRef.FieldPath)
			if err != nil {
				return nil, err
			}
			files[item.Path] = []byte(value)
		}
		return files, nil
	default:
		return nil, errors.New("the process node has no projection of this type")
	}
}

func (in *inputs) configMap(ctx context.Context, name string, items []corev1.KeyToPath, optional *bool) (map[string][]byte, error) {
	cm, err := in.client.CoreV1().ConfigMaps(in.pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, absent(err, optional, "configmap", name)
	}
	data := maps.Clone(cm.BinaryData)
	if data == nil {
		data = map[string][]byte{}
	}
	for key, value := range cm.Data {
		data[key] = []byte(value)
	}
	return pick(data, items), nil
}

func (in *inputs) secret(ctx context.Context, name string, items []corev1.KeyToPath, optional *bool) (map[string][]byte, error) {
	secret, err := in.client.CoreV1().Secrets(in.pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, absent(err, optional, "secret", name)
	}
	return pick(secret.Data, items), nil
}

func absent(err error, optional *bool, kind, name string) error {
	if apierrors.IsNotFound(err) && ptr.Deref(optional, false) {
		return nil
	}
	return fmt.Errorf("%s %q: %w", kind, name, err)
}

func pick(data map[string][]byte, items []corev1.KeyToPath) map[string][]byte {
	if len(items) == 0 {
		return data
	}
	picked := map[string][]byte{}
	for _, item := range items {
		if value, ok := data[item.Key]; ok {
			picked[item.Path] = value
		}
	}
	return picked
}

// token asks for a token that ends with the pod.
func (in *inputs) token(ctx context.Context, audience string, seconds *int64) ([]byte, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: ptr.To(ptr.Deref(seconds, tokenSeconds)),
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
	return []byte(answer.Status.Token), nil
}

// kubeconfig writes the service account's kubeconfig and returns its path, or "" for a
// pod that wants no token. It is called again to renew the token.
func (in *inputs) kubeconfig(ctx context.Context) (string, error) {
	if !ptr.Deref(in.pod.Spec.AutomountServiceAccountToken, true) {
		return "", nil
	}
	folder := filepath.Join(in.dir, "serviceaccount")
	token, err := in.token(ctx, "", nil)
	if err != nil {
		return "", err
	}
	if err := writeFile(filepath.Join(folder, "token"), token); err != nil {
		return "", err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["cluster"] = &clientcmdapi.Cluster{Server: in.config.Host, CertificateAuthorityData: in.config.CAData, CertificateAuthority: in.config.CAFile}
	config.AuthInfos["serviceaccount"] = &clientcmdapi.AuthInfo{TokenFile: filepath.Join(folder, "token")}
	config.Contexts["pod"] = &clientcmdapi.Context{Cluster: "cluster", AuthInfo: "serviceaccount", Namespace: in.pod.Namespace}
	config.CurrentContext = "pod"
	content, err := clientcmd.Write(*config)
	if err != nil {
		return "", fmt.Errorf("encoding the kubeconfig: %w", err)
	}
	name := filepath.Join(folder, "kubeconfig")
	return name, writeFile(name, content)
}

// environment resolves a container's variables, in their order, with what every process
// gets. References to earlier variables are expanded, mount paths replaced.
func (in *inputs) environment(ctx context.Context, container *corev1.Container, kubeconfig string, mounts map[string]string) (map[string]string, error) {
	variables := map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": in.dir, "TMPDIR": filepath.Join(in.dir, "tmp"), "HOSTNAME": in.pod.Name,
	}
	if kubeconfig != "" {
		variables[kubeconfigEnv] = kubeconfig
	}
	for _, from := range container.EnvFrom {
		data, err := in.envFrom(ctx, from)
		if err != nil {
			return nil, err
		}
		for key, value := range data {
			variables[from.Prefix+key] = string(value)
		}
	}
	for i := range container.Env {
		value, found, err := in.value(ctx, &container.Env[i])
		if err != nil {
			return nil, fmt.Errorf("variable %s: %w", container.Env[i].Name, err)
		}
		if found {
			variables[container.Env[i].Name] = remount(expand(value, variables), mounts)
		}
	}
	return variables, nil
}

func (in *inputs) envFrom(ctx context.Context, from corev1.EnvFromSource) (map[string][]byte, error) {
	switch {
	case from.ConfigMapRef != nil:
		return in.configMap(ctx, from.ConfigMapRef.Name, nil, from.ConfigMapRef.Optional)
	case from.SecretRef != nil:
		return in.secret(ctx, from.SecretRef.Name, nil, from.SecretRef.Optional)
	default:
		return nil, nil
	}
}

func (in *inputs) value(ctx context.Context, env *corev1.EnvVar) (string, bool, error) {
	from := env.ValueFrom
	var data map[string][]byte
	var key string
	var optional *bool
	var err error
	switch {
	case from == nil:
		return env.Value, true, nil
	case from.FieldRef != nil:
		value, err := in.field(from.FieldRef.FieldPath)
		return value, true, err
	case from.ConfigMapKeyRef != nil:
		key, optional = from.ConfigMapKeyRef.Key, from.ConfigMapKeyRef.Optional
		data, err = in.configMap(ctx, from.ConfigMapKeyRef.Name, nil, optional)
	case from.SecretKeyRef != nil:
		key, optional = from.SecretKeyRef.Key, from.SecretKeyRef.Optional
		data, err = in.secret(ctx, from.SecretKeyRef.Name, nil, optional)
	default:
		return "", false, errors.New("the process node knows no such source")
	}
	if err != nil {
		return "", false, err
	}
	value, found := data[key]
	if !found && !ptr.Deref(optional, false) {
		return "", false, fmt.Errorf("key %q is missing", key)
	}
	return string(value), found, nil
}

// field resolves a path of the downward API.
func (in *inputs) field(fieldPath string) (string, error) {
	if base, key, ok := strings.Cut(strings.TrimSuffix(fieldPath, "']"), "['"); ok {
		switch base {
		case "metadata.labels":
			return in.pod.Labels[key], nil
		case "metadata.annotations":
			return in.pod.Annotations[key], nil
		}
	}
	value, ok := map[string]string{
		"metadata.name": in.pod.Name, "metadata.namespace": in.pod.Namespace, "metadata.uid": string(in.pod.UID),
		"spec.nodeName": in.pod.Spec.NodeName, "spec.serviceAccountName": in.pod.Spec.ServiceAccountName,
		"status.podIP": in.ip, "status.podIPs": in.ip, "status.hostIP": in.hostIP,
	}[fieldPath]
	if !ok {
		return "", fmt.Errorf("the process node knows no field %q", fieldPath)
	}
	return value, nil
}

// environ lists variables as a process wants them.
func environ(variables map[string]string) []string {
	list := make([]string, 0, len(variables))
	for _, key := range slices.Sorted(maps.Keys(variables)) {
		list = append(list, key+"="+variables[key])
	}
	return list
}

// renewEvery is how often tokens, ConfigMaps and Secrets are brought up to date: well
// before a token of tokenSeconds ends.
const renewEvery = 10 * time.Minute
