package virtualkubelet

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// The virtual kubelet's container as it stands on the wire.
const (
	containerName    = "virtual-kubelet"
	containerCommand = "/usr/bin/virtual-kubelet"
	metricsPortName  = "metrics"

	flagKubeconfigSecret = "--foreign-kubeconfig-secret-name"
	flagCreateNode       = "--create-node"
	flagCheckNetwork     = "--node-check-network"
	flagHealthPort       = "--health-port"
	flagPolicyCacheDir   = "--policy-cache-dir"

	// The root file system is read-only, and policies are compiled into files.
	policyCacheVolume = "policy-cache"
	policyCacheDir    = "/var/cache/longshore"
)

// The flags of the virtual kubelet that have the name of the VirtualNode, or are merged from a user's
// spec.template.
const (
	FlagNodeName        = "--nodename"
	FlagNodeAnnotations = "--node-extra-annotations"
	FlagNodeLabels      = "--node-extra-labels"
	FlagMetricsEnabled  = "--metrics-enabled"
	FlagMetricsAddress  = "--metrics-address"
)

// Security context and probes are those of the chart's workloads
// (charts/longshore/templates/_helpers.tpl). Virtual kubelets may then run in a namespace with
// the Pod Security standard "restricted".
const (
	healthPortName = "health"
	// defaultHealthPort is the health port of a kubelet.
	defaultHealthPort = "10248"
	// runAs is the numeric user and group. The user of an image may be root or only have a name.
	runAs = 1000
	// livenessDelay and readinessPeriod are in seconds.
	livenessDelay   = 10
	readinessPeriod = 2
)

// The Go runtime reads the variable. Its value is nine tenths of the memory limit of the container.
const (
	memoryVariable = "GOMEMLIMIT"
	memoryFactor   = 9
	memoryDivisor  = 10
)

// Cluster describes the consumer cluster.
type Cluster struct {
	ID            string
	Namespace     string
	LocalPodCIDRs []string
	// PriorityClassName is that of the pods of virtual kubelets; it may be empty.
	PriorityClassName string
	// NodeSelector and Affinity of these pods; both may be empty.
	NodeSelector map[string]string
	Affinity     *corev1.Affinity
}

// typedReflectors have a --<resource>-reflection-type flag.
var typedReflectors = []string{"service", "ingress", "configmap", "secret", "event"}

// forgeTemplate builds the Deployment that the VirtualNode carries.
func forgeTemplate(vn *offloadingv1beta1.VirtualNode, options *offloadingv1beta1.VkOptionsTemplate, cluster Cluster) *offloadingv1beta1.DeploymentTemplate {
	selector := map[string]string{
		offloadingv1beta1.ComponentLabel:     offloadingv1beta1.ComponentVirtualKubelet,
		liqocorev1beta1.RemoteClusterIDLabel: string(vn.Spec.ClusterID),
		offloadingv1beta1.VirtualNodeLabel:   vn.Name,
	}
	spec := &options.Spec
	labels := mergeMaps(spec.ExtraLabels, selector)
	container := forgeContainer(vn, spec, cluster)
	var volumes []corev1.Volume
	for _, mount := range container.VolumeMounts {
		volumes = append(volumes, corev1.Volume{Name: mount.Name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	}
	return &offloadingv1beta1.DeploymentTemplate{
		ObjectMeta: metav1.ObjectMeta{
			Name: "vk-" + vn.Name, Namespace: vn.Namespace, Labels: labels, Annotations: maps.Clone(spec.ExtraAnnotations),
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: spec.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: selector},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: maps.Clone(labels), Annotations: maps.Clone(spec.ExtraAnnotations)},
				Spec: corev1.PodSpec{
					Containers:         []corev1.Container{container},
					Volumes:            volumes,
					ServiceAccountName: vn.Name,
					ImagePullSecrets:   spec.ImagePullSecrets,
					SecurityContext: &corev1.PodSecurityContext{
						RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](runAs), RunAsGroup: ptr.To[int64](runAs), FSGroup: ptr.To[int64](runAs),
						SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
					},
					Tolerations:               spec.Tolerations,
					PriorityClassName:         cluster.PriorityClassName,
					NodeSelector:              maps.Clone(cluster.NodeSelector),
					Affinity:                  cluster.Affinity.DeepCopy(),
					TopologySpreadConstraints: spreadConstraints(selector),
				},
			},
		},
	}
}

// spreadConstraints keep the replicas of a virtual kubelet apart where there is room, as the chart
// does with the other workloads.
func spreadConstraints(selector map[string]string) []corev1.TopologySpreadConstraint {
	var constraints []corev1.TopologySpreadConstraint
	for _, key := range []string{corev1.LabelHostname, corev1.LabelTopologyZone} {
		constraints = append(constraints, corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector:  &metav1.LabelSelector{MatchLabels: selector},
			MatchLabelKeys: []string{appsv1.DefaultDeploymentUniqueLabelKey},
		})
	}
	return constraints
}

func forgeContainer(vn *offloadingv1beta1.VirtualNode, spec *offloadingv1beta1.VkOptionsTemplateSpec, cluster Cluster) corev1.Container {
	container := corev1.Container{
		Name:            containerName,
		Image:           spec.ContainerImage,
		ImagePullPolicy: corev1.PullIfNotPresent,
		Command:         []string{containerCommand},
		Args:            forgeArguments(vn, spec, cluster),
		Resources:       spec.Resources,
		Env: []corev1.EnvVar{
			fieldEnv("POD_IP", "status.podIP"), fieldEnv("POD_NAME", "metadata.name"), fieldEnv("POD_NAMESPACE", "metadata.namespace"),
			{Name: "VIRTUALNODE_NAME", Value: vn.Name},
		},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
	followMemoryLimit(&container)
	if flagValue(container.Args, flagPolicyCacheDir) == policyCacheDir {
		container.VolumeMounts = []corev1.VolumeMount{{Name: policyCacheVolume, MountPath: policyCacheDir}}
	}
	if spec.PullPolicy != "" {
		container.ImagePullPolicy = spec.PullPolicy
	}
	if port := portOf(spec.MetricsAddress); spec.MetricsEnabled && port > 0 {
		container.Ports = []corev1.ContainerPort{{Name: metricsPortName, ContainerPort: port, Protocol: corev1.ProtocolTCP}}
	}
	if port := portOf(":" + flagValue(container.Args, flagHealthPort)); port > 0 {
		container.Ports = append(container.Ports, corev1.ContainerPort{Name: healthPortName, ContainerPort: port, Protocol: corev1.ProtocolTCP})
		container.LivenessProbe = &corev1.Probe{ProbeHandler: httpGet("/healthz"), InitialDelaySeconds: livenessDelay}
		container.ReadinessProbe = &corev1.Probe{ProbeHandler: httpGet("/readyz"), PeriodSeconds: readinessPeriod}
	}
	return container
}

// followMemoryLimit keeps the heap of the virtual kubelet below its memory limit: near it, the garbage collector
// works more, instead of the kernel ending the process. The rest is for stacks, code and sandboxes of policies.
func followMemoryLimit(container *corev1.Container) {
	container.Env = slices.DeleteFunc(container.Env, func(variable corev1.EnvVar) bool { return variable.Name == memoryVariable })
	if limit := container.Resources.Limits.Memory().Value(); limit > 0 {
		container.Env = append(container.Env, corev1.EnvVar{Name: memoryVariable, Value: strconv.FormatInt(limit/memoryDivisor*memoryFactor, 10)})
	}
}

func httpGet(path string) corev1.ProbeHandler {
	return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString(healthPortName)}}
}

func fieldEnv(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path},
	}}
}

// portOf returns the port of host:port, or 0. The host may be an IPv6 address in brackets.
func portOf(address string) int32 {
	colon := strings.LastIndexByte(address, ':')
	if colon < 0 {
		return 0
	}
	n, err := strconv.ParseUint(address[colon+1:], 10, 16)
	if err != nil {
		return 0
	}
	return int32(n)
}

// forgeArguments lists the arguments in the order of the reference: templates on the wire
// override by position.
func forgeArguments(vn *offloadingv1beta1.VirtualNode, spec *offloadingv1beta1.VkOptionsTemplateSpec, cluster Cluster) []string {
	args := []string{
		"--foreign-cluster-id=" + string(vn.Spec.ClusterID), FlagNodeName + "=" + vn.Name, "--node-ip=$(POD_IP)",
		"--tenant-namespace=" + vn.Namespace, "--liqo-namespace=" + cluster.Namespace, "--home-cluster-id=" + cluster.ID,
	}
	for _, cidr := range cluster.LocalPodCIDRs {
		args = append(args, "--local-podcidr="+cidr)
	}
	args = append(args, ClassArguments(vn)...)
	for _, resource := range slices.Sorted(maps.Keys(spec.ReflectorsConfig)) {
		config := spec.ReflectorsConfig[resource]
		args = append(args, fmt.Sprintf("%s=%d", WorkersFlag(resource), config.NumWorkers))
	}
	for _, resource := range typedReflectors {
		if config, ok := spec.ReflectorsConfig[resource]; ok && config.Type != "" {
			args = append(args, fmt.Sprintf("%s=%s", TypeFlag(resource), config.Type))
		}
	}
	if len(spec.NodeExtraAnnotations) > 0 {
		args = append(args, FlagNodeAnnotations+"="+joinMap(spec.NodeExtraAnnotations))
	}
	if len(spec.NodeExtraLabels) > 0 {
		args = append(args, FlagNodeLabels+"="+joinMap(spec.NodeExtraLabels))
	}
	args = append(args, spec.ExtraArgs...)
	args = append(args, FlagMetricsEnabled+"="+strconv.FormatBool(spec.MetricsEnabled))
	if spec.MetricsEnabled && spec.MetricsAddress != "" {
		args = append(args, FlagMetricsAddress+"="+spec.MetricsAddress)
	}
	if flagValue(args, flagHealthPort) == "" {
		args = append(args, flagHealthPort+"="+defaultHealthPort)
	}
	if flagValue(args, flagPolicyCacheDir) == "" {
		args = append(args, flagPolicyCacheDir+"="+policyCacheDir)
	}
	return args
}

// ClassArguments returns the flags that enable storage, ingress and load balancers for a
// VirtualNode with classes: the default class of each, or else the first.
func ClassArguments(vn *offloadingv1beta1.VirtualNode) []string {
	var args []string
	if n := len(vn.Spec.StorageClasses); n > 0 {
		i := max(0, slices.IndexFunc(vn.Spec.StorageClasses, func(c authv1beta1.StorageType) bool { return c.Default }))
		args = append(args, "--enable-storage", "--remote-real-storage-class-name="+vn.Spec.StorageClasses[i].StorageClassName)
	}
	if n := len(vn.Spec.IngressClasses); n > 0 {
		i := max(0, slices.IndexFunc(vn.Spec.IngressClasses, func(c authv1beta1.IngressType) bool { return c.Default }))
		args = append(args, "--enable-ingress", "--remote-real-ingress-class-name="+vn.Spec.IngressClasses[i].IngressClassName)
	}
	if n := len(vn.Spec.LoadBalancerClasses); n > 0 {
		i := max(0, slices.IndexFunc(vn.Spec.LoadBalancerClasses, func(c authv1beta1.LoadBalancerType) bool { return c.Default }))
		args = append(args, "--enable-load-balancer", "--remote-real-load-balancer-class-name="+vn.Spec.LoadBalancerClasses[i].LoadBalancerClassName)
	}
	return args
}

// flagValue returns the value of a flag, or "". Of several, the last one counts.
func flagValue(args []string, flag string) (value string) {
	for _, arg := range args {
		if name, v, _ := strings.Cut(arg, "="); name == flag {
			value = v
		}
	}
	return value
}

func setArgument(args []string, flag, value string) []string {
	desired := flag + "=" + value
	for i, arg := range args {
		if name, _, _ := strings.Cut(arg, "="); name == flag {
			args[i] = desired
			return args
		}
	}
	return append(args, desired)
}

func joinMap(m map[string]string) string {
	pairs := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		pairs = append(pairs, k+"="+m[k])
	}
	return strings.Join(pairs, ",")
}

func mergeMaps(base, over map[string]string) map[string]string {
	if len(base) == 0 && len(over) == 0 {
		return nil
	}
	out := make(map[string]string, len(base)+len(over))
	maps.Copy(out, base)
	maps.Copy(out, over)
	return out
}

func mergeResources(base, over corev1.ResourceList) corev1.ResourceList {
	if len(over) == 0 {
		return base
	}
	out := maps.Clone(base)
	if out == nil {
		out = corev1.ResourceList{}
	}
	maps.Copy(out, over)
	return out
}
