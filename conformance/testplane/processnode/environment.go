package processnode

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// environment resolves a container's variables, in their order, with what every process
// gets. References to earlier variables are expanded, mount paths replaced.
func (in *inputs) environment(ctx context.Context, container *corev1.Container, kubeconfig string, mounts map[string]string) (map[string]string, error) {
	variables := map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": in.dir, "TMPDIR": filepath.Join(in.dir, "tmp"), "HOSTNAME": in.pod.Name,
	}
	if kubeconfig != "" {
		variables["KUBECONFIG"] = kubeconfig
	}
	if server, err := url.Parse(in.config.Host); err == nil && server.Hostname() != "" {
		variables["KUBERNETES_SERVICE_HOST"], variables["KUBERNETES_SERVICE_PORT"] = server.Hostname(), server.Port()
	}
	for _, from := range container.EnvFrom {
		data, err := in.environmentFrom(ctx, from)
		if err != nil {
			return nil, err
		}
		for key, value := range data {
			variables[from.Prefix+key] = remount(string(value), mounts)
		}
	}
	for i := range container.Env {
		value, found, err := in.value(ctx, &container.Env[i], variables)
		if err != nil {
			return nil, fmt.Errorf("resolving variable %s: %w", container.Env[i].Name, err)
		}
		if found {
			variables[container.Env[i].Name] = remount(value, mounts)
		}
	}
	return variables, nil
}

func (in *inputs) environmentFrom(ctx context.Context, from corev1.EnvFromSource) (map[string][]byte, error) {
	switch {
	case from.ConfigMapRef != nil:
		data, _, err := in.configMap(ctx, from.ConfigMapRef.Name, from.ConfigMapRef.Optional)
		return data, err
	case from.SecretRef != nil:
		data, _, err := in.secret(ctx, from.SecretRef.Name, from.SecretRef.Optional)
		return data, err
	default:
		return nil, errors.New("the process node knows envFrom of configMapRef and secretRef only")
	}
}

// value resolves one variable; found is false for an optional one that is missing. Only
// values that stand in the pod are expanded, as by the kubelet.
func (in *inputs) value(ctx context.Context, env *corev1.EnvVar, variables map[string]string) (value string, found bool, err error) {
	from := env.ValueFrom
	switch {
	case from == nil:
		return expand(env.Value, variables), true, nil
	case from.FieldRef != nil:
		value, err := in.field(from.FieldRef.FieldPath)
		return value, true, err
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		data, _, err := in.configMap(ctx, ref.Name, ref.Optional)
		return keyOf(data, err, ref.Key, ref.Optional, "configmap", ref.Name)
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		data, _, err := in.secret(ctx, ref.Name, ref.Optional)
		return keyOf(data, err, ref.Key, ref.Optional, "secret", ref.Name)
	case from.ResourceFieldRef != nil:
		return "", false, errNoResourceField
	default:
		return "", false, errors.New("the process node knows no such source of a value")
	}
}

func keyOf(data map[string][]byte, err error, key string, optional *bool, kind, name string) (string, bool, error) {
	if err != nil {
		return "", false, err
	}
	value, found := data[key]
	if !found && !ptr.Deref(optional, false) {
		return "", false, fmt.Errorf("%s %q has no key %q", kind, name, key)
	}
	return string(value), found, nil
}

// environ lists variables as a process wants them.
func environ(variables map[string]string) []string {
	list := make([]string, 0, len(variables))
	for _, key := range slices.Sorted(maps.Keys(variables)) {
		list = append(list, key+"="+variables[key])
	}
	return list
}
