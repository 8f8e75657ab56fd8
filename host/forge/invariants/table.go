package invariants

import (
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Kind of a row.
type Kind string

// The kinds of rows.
const (
	// Guarded fields have a rule.
	Guarded Kind = "guarded"
	// Nested fields are checked by their parts, which have rows of their own.
	Nested Kind = "by its parts"
	// Free fields may be written by policies that declare it.
	Free Kind = "free"
)

// Row describes what policies may do to a field.
type Row struct {
	// Type and Field are Go's names: "PodSpec", "HostNetwork".
	Type, Field string
	// Kind of the row.
	Kind Kind
	// Text is the rule of a guarded field, or the reason why a field is free.
	Text string
}

func guarded(field, rule string) Row { return Row{Field: field, Kind: Guarded, Text: rule} }

func nested(fields ...string) []Row {
	rows := make([]Row, len(fields))
	for i, field := range fields {
		rows[i] = Row{Field: field, Kind: Nested, Text: "see its own table"}
	}
	return rows
}

// free returns rows of fields that are free for the same reason.
func free(reason string, fields ...string) []Row {
	rows := make([]Row, len(fields))
	for i, field := range fields {
		rows[i] = Row{Field: field, Kind: Free, Text: reason}
	}
	return rows
}

// Types returns the types whose fields are all in the table, in the order of the document.
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

// HarmlessField reports whether a field of the pod spec, by its JSON name, is free. If only
// such fields changed, no check is needed. A test compares it with the table.
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
	placing  = "determines where and when the pod is scheduled, which policies may decide"
	running  = "determines what runs in the container, not how isolated it is; a policy must declare that it writes it"
	resolves = "determines name resolution in the pod"
	computed = "is computed by the cluster's own admission, which rejects other values"
	files    = "concerns the pod's own files"
	own      = "has data of the pod's own namespace, or none"
	outside  = "policies do not add or change it: it gives access to the node, or to a system outside of the cluster"
)

func tables() map[string][][]Row {
	return map[string][][]Row{
		"PodSpec":            podRows(),
		"PodSecurityContext": podContextRows(),
		"SecurityContext":    contextRows(),
		"Capabilities": {{
			guarded("Add", "no capability is added, unless ALL was added before"),
			guarded("Drop", "what was dropped stays dropped, by itself or by ALL"),
		}},
		"WindowsSecurityContextOptions": {{
			guarded("HostProcess", "does not become true"),
			guarded("RunAsUserName", "does not become ContainerAdministrator or unset"),
			guarded("GMSACredentialSpec", "policies do not add or change it: it is a domain account"),
			guarded("GMSACredentialSpecName", "policies do not add or change it: it is a domain account"),
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
			{guarded("SecretKeyRef", "does not name a Secret that the pod does not use already")},
		},
		"EnvFromSource": {
			free(own, "Prefix", "ConfigMapRef"),
			{guarded("SecretRef", "does not name a Secret that the pod does not use already")},
		},
		"ProbeHandler":     {free(running, "Exec"), nested("HTTPGet", "TCPSocket", "GRPC")},
		"LifecycleHandler": {free(running, "Exec", "Sleep"), nested("HTTPGet", "TCPSocket")},
		"HTTPGetAction": {
			{guarded("Host", "none is added or changed: the kubelet would send requests there from the node's network")},
			free("a request to the pod itself", "Path", "Port", "Scheme", "HTTPHeaders", "Protocol"),
		},
		"TCPSocketAction": {
			{guarded("Host", "none is added or changed: the kubelet would send requests there from the node's network")},
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
			guarded("AutomountServiceAccountToken", "false stays false, and it is false on an offloaded pod that does not use the API server of the provider"),
			guarded("EphemeralContainers", "none is added"),
			guarded("OS", "does not change: it selects which security settings apply"),
			guarded("PriorityClassName", "does not become a class with the prefix system-"),
		},
		nested("SecurityContext", "Volumes", "InitContainers", "Containers"),
		free(placing, "NodeSelector", "Affinity", "Tolerations", "SchedulerName", "TopologySpreadConstraints",
			"SchedulingGates", "SchedulingGroup", "EvictionResponders"),
		free("policies decide it; classes have no order, and the provider offers only classes that it trusts", "RuntimeClassName"),
		free("a Secret for the kubelet, which no container can read", "ImagePullSecrets"),
		free(computed, "Priority", "PreemptionPolicy", "Overhead"),
		free(resolves, "DNSPolicy", "DNSConfig", "HostAliases", "Hostname", "Subdomain", "SetHostnameAsFQDN", "HostnameOverride", "EnableServiceLinks"),
		free("determines when the pod ends or is ready", "RestartPolicy", "TerminationGracePeriodSeconds", "ActiveDeadlineSeconds", "ReadinessGates"),
		free("bounded by the provider's quota; devices are offered by the provider's drivers", "Resources", "ResourceClaims"),
	}
}

func podContextRows() [][]Row {
	const effective = "the effective value of each container, see SecurityContext"
	return [][]Row{
		{
			guarded("SupplementalGroups", "none is added"),
			guarded("SupplementalGroupsPolicy", "Strict stays Strict"),
			guarded("FSGroup", "does not become 0"),
			guarded("Sysctls", "none is added or changed"),
			guarded("RunAsUser", effective), guarded("RunAsGroup", effective), guarded("RunAsNonRoot", effective),
			guarded("SeccompProfile", effective), guarded("AppArmorProfile", effective), guarded("SELinuxOptions", effective),
		},
		nested("WindowsOptions"),
		free("determines how volumes are relabeled, not with which label", "FSGroupChangePolicy", "SELinuxChangePolicy"),
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
		nested("Capabilities", "WindowsOptions"),
	}
}

func containerRows() [][]Row {
	return [][]Row{
		{
			guarded("Name", "a container with a new name is compared with the others of its kind: it is not less isolated than the weakest of them"),
			guarded("RestartPolicy", "an init container that becomes a sidecar counts as a new container, and vice versa"),
		},
		nested("SecurityContext", "Ports", "Env", "EnvFrom", "VolumeMounts", "LivenessProbe", "ReadinessProbe", "StartupProbe", "Lifecycle"),
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
			guarded("ReadOnly", "true stays true, and a volume that is only mounted read-only is not mounted for writing elsewhere"),
			guarded("RecursiveReadOnly", "is not weakened"),
			guarded("MountPropagation", "is not extended"),
			guarded("BindMountOptions", "none is removed"),
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
		{guarded("Secret", "does not name a Secret that the pod does not use already")},
		nested("Projected"),
		free(own, "EmptyDir", "ConfigMap", "DownwardAPI", "PersistentVolumeClaim", "Ephemeral"),
		free("an image, like that of a container", "Image"),
	}
}

func projectionRows() [][]Row {
	return [][]Row{
		{
			guarded("ServiceAccountToken", "none is added or changed"),
			guarded("PodCertificate", "none is added or changed"),
			guarded("Secret", "does not name a Secret that the pod does not use already"),
		},
		free(own, "ConfigMap", "DownwardAPI"),
		free("certificates of authorities, which are public", "ClusterTrustBundle"),
	}
}
