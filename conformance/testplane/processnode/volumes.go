package processnode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
)

// serviceAccountPath is where the API server mounts a pod's service account.
const serviceAccountPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// writeVolumes writes every volume's folder. It is called again to bring them up to
// date: a file that did not change is not touched, one whose source is gone is removed.
func (in *inputs) writeVolumes(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Join(in.dir, "tmp"), 0o700); err != nil {
		return fmt.Errorf("making the pod's folder: %w", err)
	}
	for i := range in.pod.Spec.Volumes {
		volume := &in.pod.Spec.Volumes[i]
		folder := in.volumeFolder(volume.Name)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return fmt.Errorf("making volume %q: %w", volume.Name, err)
		}
		files, err := in.files(ctx, volume)
		if err != nil {
			return fmt.Errorf("filling volume %q: %w", volume.Name, err)
		}
		if in.written[volume.Name], err = writeFiles(folder, files, in.written[volume.Name]); err != nil {
			return fmt.Errorf("filling volume %q: %w", volume.Name, err)
		}
	}
	return nil
}

func (in *inputs) volumeFolder(name string) string { return filepath.Join(in.dir, "volumes", name) }

// writeFiles makes a folder hold the files, removes those of before that are not among
// them, and returns the names of what it holds now.
func writeFiles(folder string, files map[string][]byte, before []string) ([]string, error) {
	for _, name := range before {
		if _, stays := files[name]; !stays {
			if err := os.Remove(inside(folder, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return before, fmt.Errorf("removing %s: %w", name, err)
			}
		}
	}
	for name, content := range files {
		if err := writeFile(inside(folder, name), content); err != nil {
			return before, err
		}
	}
	return slices.Collect(maps.Keys(files)), nil
}

// inside returns the path of a file in a folder and never of one outside.
func inside(folder, name string) string {
	return filepath.Join(folder, filepath.FromSlash(path.Clean("/"+name)))
}

// writeFile replaces a file as a whole, unless it is as it should be.
func writeFile(name string, content []byte) error {
	if old, err := os.ReadFile(name); err == nil && bytes.Equal(old, content) {
		return nil
	}
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
	case volume.ConfigMap != nil:
		v := volume.ConfigMap
		data, found, err := in.configMap(ctx, v.Name, v.Optional)
		return pick(data, found, err, v.Items, v.Optional)
	case volume.Secret != nil:
		v := volume.Secret
		data, found, err := in.secret(ctx, v.SecretName, v.Optional)
		return pick(data, found, err, v.Items, v.Optional)
	case volume.DownwardAPI != nil:
		return in.downward(volume.DownwardAPI.Items)
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
		// An emptyDir; all else was refused before.
		return nil, nil
	}
}

func (in *inputs) projection(ctx context.Context, source *corev1.VolumeProjection) (map[string][]byte, error) {
	switch {
	case source.ConfigMap != nil:
		s := source.ConfigMap
		data, found, err := in.configMap(ctx, s.Name, s.Optional)
		return pick(data, found, err, s.Items, s.Optional)
	case source.Secret != nil:
		s := source.Secret
		data, found, err := in.secret(ctx, s.Name, s.Optional)
		return pick(data, found, err, s.Items, s.Optional)
	case source.ServiceAccountToken != nil:
		token, err := in.token(ctx, source.ServiceAccountToken.Audience, source.ServiceAccountToken.ExpirationSeconds)
		return map[string][]byte{source.ServiceAccountToken.Path: token}, err
	case source.DownwardAPI != nil:
		return in.downward(source.DownwardAPI.Items)
	default:
		return nil, errors.New("the process node knows no projection of this type")
	}
}

func (in *inputs) downward(items []corev1.DownwardAPIVolumeFile) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, item := range items {
		if item.FieldRef == nil {
			return nil, errNoResourceField
		}
		value, err := in.field(item.FieldRef.FieldPath)
		if err != nil {
			return nil, err
		}
		files[item.Path] = []byte(value)
	}
	return files, nil
}

// pick selects the items of a ConfigMap or Secret, all when there are none. A missing
// key is an error unless it is optional.
func pick(data map[string][]byte, found bool, err error, items []corev1.KeyToPath, optional *bool) (map[string][]byte, error) {
	if err != nil || !found || len(items) == 0 {
		return data, err
	}
	picked := map[string][]byte{}
	for _, item := range items {
		value, ok := data[item.Key]
		if !ok && !ptr.Deref(optional, false) {
			return nil, fmt.Errorf("the key %q is missing", item.Key)
		}
		if ok {
			picked[item.Path] = value
		}
	}
	return picked, nil
}

// mounts maps a container's mount paths to the folders or files that stand for them.
func (in *inputs) mounts(container *corev1.Container) map[string]string {
	mounts := map[string]string{}
	for _, mount := range container.VolumeMounts {
		mounts[path.Clean(mount.MountPath)] = inside(in.volumeFolder(mount.Name), mount.SubPath)
	}
	return mounts
}

// kubeconfig writes what a container needs to speak as its service account and returns
// the path, or "" for a container without one. The token is named, not copied: renewing
// the volume renews it.
func (in *inputs) kubeconfig(container *corev1.Container, mounts map[string]string) (string, error) {
	account, ok := mounts[serviceAccountPath]
	if !ok {
		return "", nil
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["cluster"] = &clientcmdapi.Cluster{Server: in.config.Host, CertificateAuthority: filepath.Join(account, corev1.ServiceAccountRootCAKey)}
	config.AuthInfos["serviceaccount"] = &clientcmdapi.AuthInfo{TokenFile: filepath.Join(account, corev1.ServiceAccountTokenKey)}
	config.Contexts["pod"] = &clientcmdapi.Context{Cluster: "cluster", AuthInfo: "serviceaccount", Namespace: in.pod.Namespace}
	config.CurrentContext = "pod"
	content, err := clientcmd.Write(*config)
	if err != nil {
		return "", fmt.Errorf("encoding the kubeconfig: %w", err)
	}
	name := filepath.Join(in.dir, "kubeconfigs", container.Name)
	return name, writeFile(name, content)
}
