package invariants

import (
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Kind says what the table says of a field.
type Kind string

// The kinds of rows.
const (
	// Guarded fields have a rule that is checked.
	Guarded Kind = "guarded"
	// Parted fields are checked by their parts, which have rows of their own.
	Parted Kind = "by its parts"
	// Free fields are the policies' to write, within what they declare.
	Free Kind = "free"
)

// Row is what policies may do to a field.
type Row struct {
	// Type and Field are Go's names: "PodSpec", "HostNetwork".
	Type, Field string
	// Kind of the row.
	Kind Kind
	// Text is the rule of a guarded field, or why a free one is free.
	Text string
}

func guarded(field, rule string) Row { return Row{Field: field, Kind: Guarded, Text: rule} }

func parted(fields ...string) []Row {
	rows := make([]Row, len(fields))
	for i, field := range fields {
		rows[i] = Row{Field: field, Kind: Parted, Text: "see its own table"}
	}
	return rows
}

// free takes fields that are free for one reason.
func free(reason string, fields ...string) []Row {
	rows := make([]Row, len(fields))
	for i, field := range fields {
		rows[i] = Row{Field: field, Kind: Free, Text: reason}
	}
	return rows
}

// Types are the types that the table covers, completely, in the order of the document.
func Types() []reflect.Type {
	return []reflect.Type{
		reflect.TypeFor[corev1.PodSpec](),
		reflect.TypeFor[corev1.PodSecurityContext](),
		reflect.TypeFor[corev1.SecurityContext](),
		reflect.TypeFor[corev1.Capabilities](),
		reflect.TypeFor[corev1.WindowsSecurityContextOptions](),
		reflect.TypeFor[corev1.Container](),
		reflect.TypeFor[corev1.ContainerPort](),
		reflect.TypeFor[corev1.EnvVarSource](),
		reflect.TypeFor[corev1.EnvFromSource](),
		reflect.TypeFor[corev1.ProbeHandler](),
		reflect.TypeFor[corev1.LifecycleHandler](),
		reflect.TypeFor[corev1.HTTPGetAction](),
		reflect.TypeFor[corev1.TCPSocketAction](),
		reflect.TypeFor[corev1.GRPCAction](),
		reflect.TypeFor[corev1.VolumeMount](),
		reflect.TypeFor[corev1.VolumeSource](),
		reflect.TypeFor[corev1.VolumeProjection](),
	}
}

// Table returns a row for every field of [Types].
func Table() []Row {
	var all []Row
	for name, groups := range tables() {
		for _, rows := range groups {
			for _, row := range rows {
				row.Type = name
				all = append(all, row)
			}
		}
	}
	return all
}

// HarmlessField reports whether a field of the pod spec, by its JSON name, is free: when
// only such fields have changed there is nothing to check. A test holds it to the table.
func HarmlessField(name string) bool {
	switch name {
	case "activeDeadlineSeconds", "affinity", "dnsConfig", "dnsPolicy", "enableServiceLinks", "evictionResponders",
		"hostAliases", "hostname", "hostnameOverride", "imagePullSecrets", "nodeSelector", "overhead", "preemptionPolicy",
		"priority", "readinessGates", "resourceClaims", "resources", "restartPolicy", "runtimeClassName", "schedulerName",
		"schedulingGates", "schedulingGroup", "setHostnameAsFQDN", "subdomain", "terminationGracePeriodSeconds",
		"tolerations", "topologySpreadConstraints":
		return true
	default:
		return false
	}
}

func jsonName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}

const (
	placing  = "says where and when the pod is scheduled, which is what policies are for"
	running  = "says what runs in the sandbox, not how tight the sandbox is; a policy that may write it declares so"
	resolves = "says how the pod names itself and others"
	computed = "is computed by the cluster's own admission, which refuses another value"
	files    = "concerns the pod's own files"
	own      = "holds data of the pod's own namespace, or none"
	outside  = "added or changed by no policy: it opens the node, or something outside of the cluster"
)

func tables() map[string][][]Row {
	return map[string][][]Row{
		"PodSpec":            podRows(),
		"PodSecurityContext": podContextRows(),
		"SecurityContext":    contextRows(),
		"Capabilities": {{
			guarded("Add", "nothing is added, unless ALL was"),
			guarded("Drop", "what was dropped stays dropped, by itself or by ALL"),
		}},
		"WindowsSecurityContextOptions": {{
			guarded("HostProcess", "does not become true"),
			guarded("RunAsUserName", "does not become ContainerAdministrator or unset"),
			guarded("GMSACredentialSpec", "added or changed by no policy: it is an account of the domain"),
			guarded("GMSACredentialSpecName", "added or changed by no policy: it is an account of the domain"),
		}},
		"Container": containerRows(),
		"ContainerPort": {
			{
				guarded("HostPort", "none is added or changed: it is a port of the node"),
				guarded("HostIP", "does not change where there is a hostPort"),
			},
			free("a port of the pod's own address", "Name", "ContainerPort"),
			{guarded("Protocol", "does not change where there is a hostPort")},
		},
		"EnvVarSource": {
			free(own, "FieldRef", "ResourceFieldRef", "ConfigMapKeyRef", "FileKeyRef"),
			{guarded("SecretKeyRef", "names no Secret that the pod does not use already")},
		},
		"EnvFromSource": {
			free(own, "Prefix", "ConfigMapRef"),
			{guarded("SecretRef", "names no Secret that the pod does not use already")},
		},
		"ProbeHandler":     {free(running, "Exec"), parted("HTTPGet", "TCPSocket", "GRPC")},
		"LifecycleHandler": {free(running, "Exec", "Sleep"), parted("HTTPGet", "TCPSocket")},
		"HTTPGetAction": {
			{guarded("Host", "none is added or changed: the kubelet would reach it from the node's network")},
			free("a request to the pod itself", "Path", "Port", "Scheme", "HTTPHeaders", "Protocol"),
		},
		"TCPSocketAction": {
			{guarded("Host", "none is added or changed: the kubelet would reach it from the node's network")},
			free("a request to the pod itself", "Port"),
		},
		"GRPCAction":       {free("a request to the pod itself", "Port", "Service", "Mode")},
		"VolumeMount":      mountRows(),
		"VolumeSource":     sourceRows(),
		"VolumeProjection": projectionRows(),
	}
}

func podRows() [][]Row {
	return [][]Row{
		{
			guarded("HostNetwork", "false on an offloaded pod; does not become true at admission"),
			guarded("HostPID", "false on an offloaded pod; does not become true at admission"),
			guarded("HostIPC", "false on an offloaded pod; does not become true at admission"),
			guarded("HostUsers", "false stays false"),
			guarded("ShareProcessNamespace", "does not become true"),
			guarded("NodeName", "empty on an offloaded pod; does not change at admission"),
			guarded("ServiceAccountName", "does not change"),
			guarded("DeprecatedServiceAccount", "does not change"),
			guarded("AutomountServiceAccountToken", "false stays false, and it is false on an offloaded pod"),
			guarded("EphemeralContainers", "none is added"),
			guarded("OS", "does not change: it says which security settings count"),
			guarded("PriorityClassName", "becomes no class whose name begins with system-"),
		},
		parted("SecurityContext", "Volumes", "InitContainers", "Containers"),
		free(placing, "NodeSelector", "Affinity", "Tolerations", "SchedulerName", "TopologySpreadConstraints",
			"SchedulingGates", "SchedulingGroup", "EvictionResponders"),
		free("is decided by policies (wire 3.4); the names of a provider's classes have no order, and the provider offers only what it trusts", "RuntimeClassName"),
		free("a Secret that the kubelet pulls with and no container sees", "ImagePullSecrets"),
		free(computed, "Priority", "PreemptionPolicy", "Overhead"),
		free(resolves, "DNSPolicy", "DNSConfig", "HostAliases", "Hostname", "Subdomain", "SetHostnameAsFQDN", "HostnameOverride", "EnableServiceLinks"),
		free("says when the pod ends or counts as ready", "RestartPolicy", "TerminationGracePeriodSeconds", "ActiveDeadlineSeconds", "ReadinessGates"),
		free("bounded by the provider's quota; devices are offered by the provider's drivers", "Resources", "ResourceClaims"),
	}
}

func podContextRows() [][]Row {
	const effective = "as it is in effect in each container, see SecurityContext"
	return [][]Row{
		{
			guarded("SupplementalGroups", "none is added"),
			guarded("SupplementalGroupsPolicy", "Strict stays Strict"),
			guarded("FSGroup", "does not become 0"),
			guarded("Sysctls", "none is added or changed"),
			guarded("RunAsUser", effective), guarded("RunAsGroup", effective), guarded("RunAsNonRoot", effective),
			guarded("SeccompProfile", effective), guarded("AppArmorProfile", effective), guarded("SELinuxOptions", effective),
		},
		parted("WindowsOptions"),
		free("says how volumes are relabeled, not with what", "FSGroupChangePolicy", "SELinuxChangePolicy"),
	}
}

func contextRows() [][]Row {
	return [][]Row{
		{
			guarded("Privileged", "does not become true"),
			guarded("AllowPrivilegeEscalation", "false stays false"),
			guarded("ReadOnlyRootFilesystem", "true stays true"),
			guarded("ProcMount", "a masked /proc stays masked"),
			guarded("RunAsNonRoot", "true stays true"),
			guarded("RunAsUser", "does not become 0, nor unset where it was another user"),
			guarded("RunAsGroup", "does not become 0, nor unset where it was another group"),
			guarded("SeccompProfile", "a profile stays the same one; unset may become a profile, but not Unconfined; Unconfined may become any"),
			guarded("AppArmorProfile", "a profile stays the same one; unset may become a profile, but not Unconfined; Unconfined may become any"),
			guarded("SELinuxOptions", "do not change: labels have no order"),
		},
		parted("Capabilities", "WindowsOptions"),
	}
}

func containerRows() [][]Row {
	return [][]Row{
		{
			guarded("Name", "a container of a new name is held against those that run as long as it does: it is no less isolated than the weakest of them"),
			guarded("RestartPolicy", "an init container that becomes a sidecar counts as a new container, and so does the reverse"),
		},
		parted("SecurityContext", "Ports", "Env", "EnvFrom", "VolumeMounts", "LivenessProbe", "ReadinessProbe", "StartupProbe", "Lifecycle"),
		free(running, "Image", "Command", "Args", "WorkingDir", "RestartPolicyRules", "Stdin", "StdinOnce", "TTY"),
		free("a provider that shares images between tenants enforces it by its own admission", "ImagePullPolicy"),
		free("bounded by the provider's quota; devices are offered by the provider's drivers", "Resources", "ResizePolicy"),
		free("a device of one of the pod's own claims", "VolumeDevices"),
		free(files, "TerminationMessagePath", "TerminationMessagePolicy"),
	}
}

func mountRows() [][]Row {
	return [][]Row{
		{
			guarded("Name", "no mount of a hostPath volume is added"),
			guarded("ReadOnly", "true stays true, and what could only be read is mounted for writing nowhere else"),
			guarded("RecursiveReadOnly", "is not weakened"),
			guarded("MountPropagation", "is not opened wider"),
			guarded("BindMountOptions", "none is taken away"),
			guarded("SubPath", "does not change in a hostPath volume"),
			guarded("SubPathExpr", "does not change in a hostPath volume"),
		},
		free(files, "MountPath"),
	}
}

func sourceRows() [][]Row {
	closed := []string{
		"HostPath", "CSI", "FlexVolume", "NFS", "ISCSI", "FC", "GitRepo", "GCEPersistentDisk", "AWSElasticBlockStore", "Glusterfs", "RBD", "Cinder",
		"CephFS", "Flocker", "AzureFile", "VsphereVolume", "Quobyte", "AzureDisk", "PhotonPersistentDisk", "PortworxVolume", "ScaleIO", "StorageOS",
	}
	rows := make([]Row, len(closed))
	for i, field := range closed {
		rows[i] = guarded(field, outside)
	}
	return [][]Row{
		rows,
		{guarded("Secret", "names no Secret that the pod does not use already")},
		parted("Projected"),
		free(own, "EmptyDir", "ConfigMap", "DownwardAPI", "PersistentVolumeClaim", "Ephemeral"),
		free("an image, as that of a container", "Image"),
	}
}

func projectionRows() [][]Row {
	return [][]Row{
		{
			guarded("ServiceAccountToken", "none is added or changed"),
			guarded("PodCertificate", "none is added or changed"),
			guarded("Secret", "names no Secret that the pod does not use already"),
		},
		free(own, "ConfigMap", "DownwardAPI"),
		free("certificates of authorities, which are public", "ClusterTrustBundle"),
	}
}
