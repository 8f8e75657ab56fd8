package remote

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// APIServer is the address at which remote pods reach the API server of the consumer; the zero
// value if they do not reach it. Remote pods get tokens of the consumer only with an address:
// without it they would present them to the provider's API server.
type APIServer struct {
	Host, Port string
	// Addresses are those of Host, if no DNS server knows them: remote pods get them as host aliases.
	// They are addresses in the consumer's networks, which the provider translates.
	Addresses []string
}

// HomeAPIServerHost is the name of the consumer's API server in host aliases of remote pods. Its
// certificate has the name, but not the addresses under which providers reach it.
const HomeAPIServerHost = "kubernetes.default"

// ForPod returns the origin with the API server that a pod uses. find is called only for pods that
// do not decline access to the consumer's API server.
func (o Origin) ForPod(pod *corev1.Pod, find func() (APIServer, error)) (Origin, error) {
	switch pod.Annotations[offloadingv1beta1.APIServerSupportAnnotation] {
	case supportDisabled, supportRemote:
		return o, nil
	}
	server, err := find()
	if err != nil {
		return o, fmt.Errorf("finding the address of the API server for remote pods: %w", err)
	}
	o.APIServer = server
	return o, nil
}

// accessMode says which API server a remote pod uses.
type accessMode int

const (
	// accessDisabled: none.
	accessDisabled accessMode = iota
	// accessHome: that of the consumer, with tokens in the Secret of [TokenSecretName].
	accessHome
	// accessRemote: that of the provider, with a service account of the remote namespace.
	accessRemote
)

// Values of the annotation liqo.io/api-server-support on local pods.
const (
	supportDisabled = "disabled"
	supportRemote   = "remote"
)

// defaultServiceAccount is the service account of pods that name none.
const defaultServiceAccount = "default"

func accessOf(pod *corev1.Pod, origin Origin) accessMode {
	switch support := pod.Annotations[offloadingv1beta1.APIServerSupportAnnotation]; {
	case support == supportRemote:
		return accessRemote
	case support == supportDisabled || origin.APIServer.Host == "":
		return accessDisabled
	default:
		return accessHome
	}
}

// serviceAccountOf returns the name of a pod's service account.
func serviceAccountOf(pod *corev1.Pod) string {
	if pod.Spec.ServiceAccountName == "" {
		return defaultServiceAccount
	}
	return pod.Spec.ServiceAccountName
}

// setAccess sets the fields of a remote spec that depend on the mode of access. spec is a copy
// of that of local, which it alters.
func setAccess(spec *corev1.PodSpec, local *corev1.Pod, origin Origin) {
	mode := accessOf(local, origin)
	if mode == accessRemote {
		// An empty name counts: it selects the default account of the remote namespace.
		name, isNamed := local.Annotations[offloadingv1beta1.RemoteServiceAccountNameAnnotation]
		if !isNamed {
			name = local.Spec.ServiceAccountName
		}
		spec.ServiceAccountName = name
		spec.AutomountServiceAccountToken = ptr.To(true)
		return
	}
	// The service account is one of the consumer.
	spec.AutomountServiceAccountToken = ptr.To(false)
	useRootCA(spec, origin)
	for i := range spec.Volumes {
		if projected := spec.Volumes[i].Projected; projected != nil {
			projected.Sources = accessSources(spec.Volumes[i].Name, projected.Sources, local, origin)
		}
	}
	var added []corev1.EnvVar
	if mode == accessHome {
		added = apiServerEnv(origin.APIServer)
		for _, address := range origin.APIServer.Addresses {
			spec.HostAliases = append(slices.Clip(spec.HostAliases), corev1.HostAlias{
				IP: address, Hostnames: []string{HomeAPIServerHost, HomeAPIServerHost + ".svc"},
			})
		}
	}
	visitContainers(spec, func(env *[]corev1.EnvVar, _ []corev1.EnvFromSource) {
		resolve(*env, serviceAccountField, serviceAccountOf(local))
		if mode == accessHome {
			resolve(*env, namespaceField, local.Namespace)
		}
		// Last, so that they replace variables of the user.
		*env = append(*env, added...)
	})
}

// visitContainers calls visit with the variables of each container. Ephemeral containers mount the
// tokens of their pod too.
func visitContainers(spec *corev1.PodSpec, visit func(env *[]corev1.EnvVar, envFrom []corev1.EnvFromSource)) {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			visit(&containers[i].Env, containers[i].EnvFrom)
		}
	}
	for i := range spec.EphemeralContainers {
		visit(&spec.EphemeralContainers[i].Env, spec.EphemeralContainers[i].EnvFrom)
	}
}

// useRootCA replaces the name of the root CA map, which has another name in the provider, wherever the
// pod refers to it. The provider has a map of its name in each namespace, with the certificate of
// another API server.
func useRootCA(spec *corev1.PodSpec, origin Origin) {
	rename := func(reference *corev1.LocalObjectReference) { reference.Name = ConfigMapName(reference.Name, origin) }
	for i := range spec.Volumes {
		if volume := spec.Volumes[i].ConfigMap; volume != nil {
			rename(&volume.LocalObjectReference)
		}
		if projected := spec.Volumes[i].Projected; projected != nil {
			for _, source := range projected.Sources {
				if source.ConfigMap != nil {
					rename(&source.ConfigMap.LocalObjectReference)
				}
			}
		}
	}
	visitContainers(spec, func(env *[]corev1.EnvVar, envFrom []corev1.EnvFromSource) {
		for _, variable := range *env {
			if from := variable.ValueFrom; from != nil && from.ConfigMapKeyRef != nil {
				rename(&from.ConfigMapKeyRef.LocalObjectReference)
			}
		}
		for i := range envFrom {
			if from := envFrom[i].ConfigMapRef; from != nil {
				rename(&from.LocalObjectReference)
			}
		}
	})
}

// accessSources replaces the tokens of a projected volume: a token comes from the Secret with the
// pod's tokens, or is left out.
func accessSources(volume string, sources []corev1.VolumeProjection, local *corev1.Pod, origin Origin) []corev1.VolumeProjection {
	kept := make([]corev1.VolumeProjection, 0, len(sources))
	tokens, _ := PodTokens(local, origin)
	for _, source := range sources {
		if source.DownwardAPI != nil && len(tokens) > 0 && accessOf(local, origin) == accessHome {
			kept = append(kept, namespaceSources(source, local)...)
			continue
		}
		token := source.ServiceAccountToken
		switch {
		case token != nil && !sendsToken(token, local, origin):
			continue
		case token != nil:
			source = corev1.VolumeProjection{Secret: &corev1.SecretProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: TokenSecretName(local.Name)},
				Items:                []corev1.KeyToPath{{Key: tokenKey(volume, token.Path), Path: token.Path}},
			}}
		}
		kept = append(kept, source)
	}
	return kept
}

// resolve replaces references to a field, which would resolve to that of the remote pod, by the value that
// the API server of the pod knows.
func resolve(env []corev1.EnvVar, field, value string) {
	for i := range env {
		if from := env[i].ValueFrom; from != nil && isField(from.FieldRef, field) {
			env[i] = corev1.EnvVar{Name: env[i].Name, Value: value}
		}
	}
}

// Variables with the address of the API server, from which [APIServerOf] reads it.
const (
	serviceHostEnv = "KUBERNETES_SERVICE_HOST"
	servicePortEnv = "KUBERNETES_SERVICE_PORT"
)

// APIServerOf returns the API server that the containers of a remote pod were told of; the zero value
// for none. The address may have changed since the pod was created, and its host aliases stay.
func APIServerOf(spec *corev1.PodSpec) APIServer {
	var server APIServer
	if len(spec.Containers) == 0 {
		return server
	}
	for _, variable := range spec.Containers[0].Env {
		switch variable.Name {
		case serviceHostEnv:
			server.Host = variable.Value
		case servicePortEnv:
			server.Port = variable.Value
		}
	}
	if server.Host == "" || server.Port == "" {
		return APIServer{}
	}
	return server
}

// APIServerVariables returns the variables of a container that [APIServerOf] reads.
func APIServerVariables(env []corev1.EnvVar) []corev1.EnvVar {
	var kept []corev1.EnvVar
	for _, variable := range env {
		if variable.Name == serviceHostEnv || variable.Name == servicePortEnv {
			kept = append(kept, variable)
		}
	}
	return kept
}

// apiServerEnv returns the variables by which clients find the API server.
func apiServerEnv(server APIServer) []corev1.EnvVar {
	host := server.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	url, port := "tcp://"+host+":"+server.Port, "KUBERNETES_PORT_"+server.Port+"_TCP"
	return []corev1.EnvVar{
		{Name: serviceHostEnv, Value: server.Host},
		{Name: servicePortEnv, Value: server.Port},
		{Name: "KUBERNETES_PORT", Value: url},
		{Name: port, Value: url},
		{Name: port + "_PROTO", Value: "tcp"},
		{Name: port + "_ADDR", Value: server.Host},
		{Name: port + "_PORT", Value: server.Port},
	}
}
