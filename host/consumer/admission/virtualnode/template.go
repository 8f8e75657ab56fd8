package virtualnode

import (
	"cmp"
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
	"github.com/longshore-dev/longshore/host/kit/vkflag"
)

// The virtual kubelet's container as it stands on the wire (wire 5.2).
const (
	containerName    = "virtual-kubelet"
	containerCommand = "/usr/bin/virtual-kubelet"
	metricsPortName  = "metrics"

	flagKubeconfigSecret = "--foreign-kubeconfig-secret-name"
	flagCreateNode       = "--create-node"
	flagCheckNetwork     = "--node-check-network"
	flagNodeAnnotations  = "--node-extra-annotations"
	flagNodeLabels       = "--node-extra-labels"
	flagMetricsEnabled   = "--metrics-enabled"
	flagMetricsAddress   = "--metrics-address"
	flagHealthPort       = "--health-port"
)

// What the chart gives every workload (charts/longshore/templates/_helpers.tpl), so that a
// namespace with the Pod Security standard "restricted" takes virtual kubelets too.
const (
	healthPortName = "health"
	// defaultHealthPort is where a kubelet tells how it is.
	defaultHealthPort = "10248"
	// runAs is user and group, by numbers: an image's user may be root, or have a name only.
	runAs = 1000
	// livenessDelay and readinessPeriod are in seconds.
	livenessDelay   = 10
	readinessPeriod = 2
)

// Cluster is what the forged Deployment needs to know of the consumer cluster.
type Cluster struct {
	ID            string
	Namespace     string
	LocalPodCIDRs []string
}

// typedReflectors have a --<resource>-reflection-type flag (wire 5.2).
var typedReflectors = []string{"service", "ingress", "configmap", "secret", "event"}

// foldTemplate merges what a user wrote into spec.template into the options: labels,
// annotations, image, resources and the arguments that options know (wire 2.4,
// CREATE step 2). Arguments without "=" that are no switches are refused by name instead of
// being lost (T66).
func foldTemplate(options *offloadingv1beta1.VkOptionsTemplate, template *offloadingv1beta1.DeploymentTemplate) error {
	if template == nil {
		return nil
	}
	spec := &options.Spec
	spec.ExtraLabels = merged(spec.ExtraLabels, template.ObjectMeta.Labels)
	spec.ExtraAnnotations = merged(spec.ExtraAnnotations, template.ObjectMeta.Annotations)
	containers := template.Spec.Template.Spec.Containers
	if len(containers) == 0 {
		return nil
	}
	c := containers[0]
	if c.Image != "" {
		spec.ContainerImage = c.Image
	}
	spec.Resources.Limits = mergedResources(spec.Resources.Limits, c.Resources.Limits)
	spec.Resources.Requests = mergedResources(spec.Resources.Requests, c.Resources.Requests)
	for _, arg := range c.Args {
		if err := foldArgument(spec, arg); err != nil {
			return err
		}
	}
	return nil
}

func foldArgument(spec *offloadingv1beta1.VkOptionsTemplateSpec, arg string) error {
	key, value, hasValue := strings.Cut(arg, "=")
	if !strings.HasPrefix(key, "--") {
		return fmt.Errorf("argument %q is not of the form --flag=value", arg)
	}
	if !hasValue && !vkflag.IsSwitch(key) {
		return fmt.Errorf("argument %q has no value: write %s=<value>", arg, key)
	}
	switch key {
	case flagMetricsEnabled:
		spec.MetricsEnabled = value != "false"
	case flagMetricsAddress:
		spec.MetricsAddress = value
	case flagNodeAnnotations, flagNodeLabels:
		parsed, err := parseMap(key, value)
		if err != nil {
			return err
		}
		if key == flagNodeLabels {
			spec.NodeExtraLabels = merged(spec.NodeExtraLabels, parsed)
		} else {
			spec.NodeExtraAnnotations = merged(spec.NodeExtraAnnotations, parsed)
		}
	case flagHealthPort:
		spec.ExtraArgs = setArgument(spec.ExtraArgs, flagHealthPort, value)
	default:
		for i, extra := range spec.ExtraArgs {
			if name, _, _ := strings.Cut(extra, "="); name == key {
				spec.ExtraArgs[i] = arg
			}
		}
	}
	return nil
}

// keepSecurity takes over what a user wrote into spec.template about how the pod runs and is
// probed, each as a whole: an empty securityContext asks for none.
func keepSecurity(forged, given *offloadingv1beta1.DeploymentTemplate) {
	if given == nil {
		return
	}
	pod := &forged.Spec.Template.Spec
	pod.SecurityContext = cmp.Or(given.Spec.Template.Spec.SecurityContext, pod.SecurityContext)
	containers := given.Spec.Template.Spec.Containers
	if len(containers) == 0 {
		return
	}
	c, wanted := &pod.Containers[0], &containers[0]
	c.SecurityContext = cmp.Or(wanted.SecurityContext, c.SecurityContext)
	c.LivenessProbe = cmp.Or(wanted.LivenessProbe, c.LivenessProbe)
	c.ReadinessProbe = cmp.Or(wanted.ReadinessProbe, c.ReadinessProbe)
	c.StartupProbe = cmp.Or(wanted.StartupProbe, c.StartupProbe)
}

// arguments are those of the virtual kubelet's container.
func arguments(vn *offloadingv1beta1.VirtualNode) []string {
	if vn.Spec.Template == nil || len(vn.Spec.Template.Spec.Template.Spec.Containers) == 0 {
		return nil
	}
	return slices.Clone(vn.Spec.Template.Spec.Template.Spec.Containers[0].Args)
}

// notTaken warns of arguments that a user wrote and that the forged Deployment does not
// have: who wrote them believes otherwise.
func notTaken(given, forged []string) []string {
	var warnings []string
	for _, arg := range given {
		switch name, _, _ := strings.Cut(arg, "="); name {
		case flagMetricsEnabled, flagMetricsAddress, flagNodeAnnotations, flagNodeLabels:
			continue // folded in, maybe in another form
		}
		if !slices.Contains(forged, arg) {
			warnings = append(warnings, fmt.Sprintf("argument %q is not taken: arguments come from the VkOptionsTemplate, whose extraArgs may be overridden here", arg))
		}
	}
	return warnings
}

// withoutEffect warns, once each, of arguments that ask for what this version does not do.
func withoutEffect(arguments []string) []string {
	var warnings []string
	for _, argument := range arguments {
		if remark := vkflag.Remark(argument); remark != "" && !slices.Contains(warnings, remark) {
			warnings = append(warnings, remark)
		}
	}
	return warnings
}

func parseMap(flag, value string) (map[string]string, error) {
	parsed := map[string]string{}
	for pair := range strings.SplitSeq(value, ",") {
		if pair == "" {
			continue
		}
		k, v, ok := strings.Cut(pair, "=")
		if !ok || k == "" {
			return nil, fmt.Errorf("argument %s: %q is not of the form key=value", flag, pair)
		}
		parsed[k] = v
	}
	return parsed, nil
}

// forgeTemplate builds the Deployment snapshot that the VirtualNode carries (5.2).
func forgeTemplate(vn *offloadingv1beta1.VirtualNode, options *offloadingv1beta1.VkOptionsTemplate, cluster Cluster) *offloadingv1beta1.DeploymentTemplate {
	selector := map[string]string{
		offloadingv1beta1.ComponentLabel:     offloadingv1beta1.ComponentVirtualKubelet,
		liqocorev1beta1.RemoteClusterIDLabel: string(vn.Spec.ClusterID),
		offloadingv1beta1.VirtualNodeLabel:   vn.Name,
	}
	spec := &options.Spec
	labels := merged(spec.ExtraLabels, selector)
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
					Containers:         []corev1.Container{forgeContainer(vn, spec, cluster)},
					ServiceAccountName: vn.Name,
					ImagePullSecrets:   spec.ImagePullSecrets,
					SecurityContext: &corev1.PodSecurityContext{
						RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](runAs), RunAsGroup: ptr.To[int64](runAs), FSGroup: ptr.To[int64](runAs),
						SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
					},
					Tolerations: spec.Tolerations,
				},
			},
		},
	}
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
	if spec.PullPolicy != "" {
		container.ImagePullPolicy = spec.PullPolicy
	}
	if port := portOf(spec.MetricsAddress); spec.MetricsEnabled && port > 0 {
		container.Ports = []corev1.ContainerPort{{Name: metricsPortName, ContainerPort: port, Protocol: corev1.ProtocolTCP}}
	}
	if port := portOf(":" + argument(container.Args, flagHealthPort)); port > 0 {
		container.Ports = append(container.Ports, corev1.ContainerPort{Name: healthPortName, ContainerPort: port, Protocol: corev1.ProtocolTCP})
		container.LivenessProbe = &corev1.Probe{ProbeHandler: httpGet("/healthz"), InitialDelaySeconds: livenessDelay}
		container.ReadinessProbe = &corev1.Probe{ProbeHandler: httpGet("/readyz"), PeriodSeconds: readinessPeriod}
	}
	return container
}

func httpGet(path string) corev1.ProbeHandler {
	return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString(healthPortName)}}
}

func fieldEnv(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path},
	}}
}

func portOf(address string) int32 {
	_, port, ok := strings.Cut(address, ":")
	if !ok {
		return 0
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return 0
	}
	return int32(n)
}

// forgeArguments lists the arguments in the reference's order: templates on the wire
// override by position.
func forgeArguments(vn *offloadingv1beta1.VirtualNode, spec *offloadingv1beta1.VkOptionsTemplateSpec, cluster Cluster) []string {
	args := []string{
		"--foreign-cluster-id=" + string(vn.Spec.ClusterID), "--nodename=" + vn.Name, "--node-ip=$(POD_IP)",
		"--tenant-namespace=" + vn.Namespace, "--liqo-namespace=" + cluster.Namespace, "--home-cluster-id=" + cluster.ID,
	}
	for _, cidr := range cluster.LocalPodCIDRs {
		args = append(args, "--local-podcidr="+cidr)
	}
	args = append(args, classArguments(vn)...)
	for _, resource := range slices.Sorted(maps.Keys(spec.ReflectorsConfig)) {
		config := spec.ReflectorsConfig[resource]
		args = append(args, fmt.Sprintf("--%s-reflection-workers=%d", resource, config.NumWorkers))
	}
	for _, resource := range typedReflectors {
		if config, ok := spec.ReflectorsConfig[resource]; ok && config.Type != "" {
			args = append(args, fmt.Sprintf("--%s-reflection-type=%s", resource, config.Type))
		}
	}
	if len(spec.NodeExtraAnnotations) > 0 {
		args = append(args, flagNodeAnnotations+"="+joinMap(spec.NodeExtraAnnotations))
	}
	if len(spec.NodeExtraLabels) > 0 {
		args = append(args, flagNodeLabels+"="+joinMap(spec.NodeExtraLabels))
	}
	args = append(args, spec.ExtraArgs...)
	args = append(args, flagMetricsEnabled+"="+strconv.FormatBool(spec.MetricsEnabled))
	if spec.MetricsEnabled && spec.MetricsAddress != "" {
		args = append(args, flagMetricsAddress+"="+spec.MetricsAddress)
	}
	if argument(args, flagHealthPort) == "" {
		args = append(args, flagHealthPort+"="+defaultHealthPort)
	}
	return args
}

// classArguments enable storage, ingress and load balancers when the provider offers a
// class; the default one is taken, else the first.
func classArguments(vn *offloadingv1beta1.VirtualNode) []string {
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

// setArguments writes the arguments that follow the VirtualNode's own fields, at CREATE
// and UPDATE: by prefix, or appended (wire 2.4).
func setArguments(vn *offloadingv1beta1.VirtualNode) error {
	containers := vn.Spec.Template.Spec.Template.Spec.Containers
	if len(containers) == 0 {
		return fmt.Errorf("spec.template.spec.template.spec.containers is empty: the virtual kubelet needs its container")
	}
	c := &containers[0]
	if ref := vn.Spec.KubeconfigSecretRef; ref != nil {
		c.Args = setArgument(c.Args, flagKubeconfigSecret, ref.Name)
	}
	c.Args = setArgument(c.Args, flagCreateNode, strconv.FormatBool(*vn.Spec.CreateNode))
	c.Args = setArgument(c.Args, flagCheckNetwork, strconv.FormatBool(!*vn.Spec.DisableNetworkCheck))
	return nil
}

// argument is the value of a flag; the last one counts, as it does for the process.
func argument(args []string, flag string) (value string) {
	for _, arg := range args {
		if name, v, _ := strings.Cut(arg, "="); name == flag {
			value = v
		}
	}
	return value
}

func setArgument(args []string, flag, value string) []string {
	wanted := flag + "=" + value
	for i, arg := range args {
		if name, _, _ := strings.Cut(arg, "="); name == flag {
			args[i] = wanted
			return args
		}
	}
	return append(args, wanted)
}

func joinMap(m map[string]string) string {
	pairs := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		pairs = append(pairs, k+"="+m[k])
	}
	return strings.Join(pairs, ",")
}

func merged(base, over map[string]string) map[string]string {
	if len(base) == 0 && len(over) == 0 {
		return nil
	}
	out := make(map[string]string, len(base)+len(over))
	maps.Copy(out, base)
	maps.Copy(out, over)
	return out
}

func mergedResources(base, over corev1.ResourceList) corev1.ResourceList {
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
