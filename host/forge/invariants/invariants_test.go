package invariants_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/invariants"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

var rome = remote.Origin{HomeClusterID: "rome", ProviderClusterID: "milan", NodeName: "milan-1"}

// guarded returns a pod with the strictest value of every guarded field.
func guarded() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{
			NodeName:  "milan-1",
			HostUsers: ptr.To(false),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](1000), RunAsGroup: ptr.To[int64](1000),
				SupplementalGroups: []int64{7}, SupplementalGroupsPolicy: ptr.To(corev1.SupplementalGroupsPolicyStrict),
				SeccompProfile:  &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
				AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault},
			},
			InitContainers: []corev1.Container{{Name: "init"}},
			Containers: []corev1.Container{{
				Name: "web",
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
					Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_BIND_SERVICE"}, Drop: []corev1.Capability{"ALL"}},
				},
				Ports: []corev1.ContainerPort{
					{ContainerPort: 80, Protocol: corev1.ProtocolTCP},
					{ContainerPort: 81, Protocol: corev1.ProtocolTCP, HostPort: 81, HostIP: "127.0.0.1"},
				},
				LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/"}}},
				VolumeMounts: []corev1.VolumeMount{
					{
						Name: "log", MountPath: "/log", ReadOnly: true, RecursiveReadOnly: ptr.To(corev1.RecursiveReadOnlyEnabled),
						SubPath: "web", BindMountOptions: []string{"noexec"},
					},
					{Name: "token", MountPath: "/token"},
				},
			}},
			Volumes: []corev1.Volume{
				{Name: "log", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var/log"}}},
				{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
					Sources: []corev1.VolumeProjection{
						{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "t"}},
						{PodCertificate: &corev1.PodCertificateProjection{SignerName: "example.com/signer"}},
					},
				}}},
			},
		},
	}
}

// debugged returns a pod with an ephemeral container.
func debugged() *corev1.Pod {
	pod := plain()
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "busybox"}}}
	return pod
}

// plain returns a pod without fields about isolation.
func plain() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web"}}},
	}
}

// weakening is a change of a draft by a policy, and the paths of the violations.
type weakening struct {
	pod  func() *corev1.Pod
	do   func(*offloadingv1beta1.ShadowPod)
	want []string
}

func refuse(t *testing.T, cases map[string]weakening) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := tc.pod()
			draft := remote.PodDraft(pod, "shop-rome", rome)
			after := draft.DeepCopy()
			tc.do(after)
			err := invariants.CheckPod(pod, draft, after)
			var broken *invariants.Error
			require.ErrorAs(t, err, &broken)
			var paths []string
			for _, violation := range broken.Violations {
				paths = append(paths, violation.Path)
				assert.Contains(t, err.Error(), violation.Path)
				assert.NotEmpty(t, violation.Problem)
			}
			assert.ElementsMatch(t, tc.want, paths)
		})
	}
}

func TestPoliciesMustNotChangeIdentityOrPlacement(t *testing.T) {
	refuse(t, map[string]weakening{
		"host network":                       {plain, func(s *offloadingv1beta1.ShadowPod) { s.Spec.Pod.HostNetwork = true }, []string{"/spec/pod/hostNetwork"}},
		"host processes":                     {plain, func(s *offloadingv1beta1.ShadowPod) { s.Spec.Pod.HostPID = true }, []string{"/spec/pod/hostPID"}},
		"host IPC":                           {plain, func(s *offloadingv1beta1.ShadowPod) { s.Spec.Pod.HostIPC = true }, []string{"/spec/pod/hostIPC"}},
		"a node":                             {plain, func(s *offloadingv1beta1.ShadowPod) { s.Spec.Pod.NodeName = "n" }, []string{"/spec/pod/nodeName"}},
		"an account":                         {plain, func(s *offloadingv1beta1.ShadowPod) { s.Spec.Pod.ServiceAccountName = "admin" }, []string{"/spec/pod/serviceAccountName"}},
		"an account by its old name":         {plain, func(s *offloadingv1beta1.ShadowPod) { s.Spec.Pod.DeprecatedServiceAccount = "admin" }, []string{"/spec/pod/serviceAccount"}},
		"the provider's token, by unsetting": {plain, func(s *offloadingv1beta1.ShadowPod) { s.Spec.Pod.AutomountServiceAccountToken = nil }, []string{"/spec/pod/automountServiceAccountToken"}},
		"the provider's token, in a volume": {guarded, func(s *offloadingv1beta1.ShadowPod) {
			s.Spec.Pod.Volumes[1].Projected.Sources = []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}}
		}, []string{"/spec/pod/volumes[name=token]/projected"}},
		"the provider's certificate": {guarded, func(s *offloadingv1beta1.ShadowPod) {
			s.Spec.Pod.Volumes[1].Projected.Sources = []corev1.VolumeProjection{{PodCertificate: &corev1.PodCertificateProjection{}}}
		}, []string{"/spec/pod/volumes[name=token]/projected"}},
		"an ephemeral container": {plain, func(s *offloadingv1beta1.ShadowPod) {
			s.Spec.Pod.EphemeralContainers = make([]corev1.EphemeralContainer, 1)
		}, []string{"/spec/pod/ephemeralContainers"}},
		"a privileged ephemeral container": {debugged, func(s *offloadingv1beta1.ShadowPod) {
			s.Spec.Pod.EphemeralContainers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
		}, []string{"/spec/pod/ephemeralContainers[name=debug]/securityContext/privileged"}},
		"another name":             {plain, func(s *offloadingv1beta1.ShadowPod) { s.Name = "x" }, []string{"/metadata/name"}},
		"another namespace":        {plain, func(s *offloadingv1beta1.ShadowPod) { s.Namespace = "kube-system" }, []string{"/metadata/namespace"}},
		"a finalizer":              {plain, func(s *offloadingv1beta1.ShadowPod) { s.Finalizers = []string{"x"} }, []string{"/metadata/finalizers"}},
		"an owner":                 {plain, func(s *offloadingv1beta1.ShadowPod) { s.OwnerReferences = make([]metav1.OwnerReference, 1) }, []string{"/metadata/ownerReferences"}},
		"a reserved label changed": {plain, func(s *offloadingv1beta1.ShadowPod) { s.Labels["offloading.liqo.io/nodename"] = "x" }, []string{"/metadata/labels/offloading.liqo.io~1nodename"}},
		"a reserved label added":   {plain, func(s *offloadingv1beta1.ShadowPod) { s.Labels["liqo.io/managed-by"] = "x" }, []string{"/metadata/labels/liqo.io~1managed-by"}},
	})
}

func TestPoliciesMustNotWeakenThePod(t *testing.T) {
	refuse(t, map[string]weakening{
		"the host's users": {guarded, func(s *offloadingv1beta1.ShadowPod) { s.Spec.Pod.HostUsers = nil }, []string{"/spec/pod/hostUsers"}},
		"shared processes": {plain, func(s *offloadingv1beta1.ShadowPod) { s.Spec.Pod.ShareProcessNamespace = ptr.To(true) }, []string{"/spec/pod/shareProcessNamespace"}},
		"a supplemental group": {plain, func(s *offloadingv1beta1.ShadowPod) {
			s.Spec.Pod.SecurityContext = &corev1.PodSecurityContext{SupplementalGroups: []int64{0}}
		}, []string{"/spec/pod/securityContext/supplementalGroups"}},
		"a lax group policy": {guarded, func(s *offloadingv1beta1.ShadowPod) { s.Spec.Pod.SecurityContext.SupplementalGroupsPolicy = nil }, []string{"/spec/pod/securityContext/supplementalGroupsPolicy"}},
		"files of the root group": {plain, func(s *offloadingv1beta1.ShadowPod) {
			s.Spec.Pod.SecurityContext = &corev1.PodSecurityContext{FSGroup: ptr.To[int64](0)}
		}, []string{"/spec/pod/securityContext/fsGroup"}},
		"a sysctl": {plain, func(s *offloadingv1beta1.ShadowPod) {
			s.Spec.Pod.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "kernel.x", Value: "1"}}}
		}, []string{"/spec/pod/securityContext/sysctls"}},
		"an AppArmor profile, by the old annotation": {plain, func(s *offloadingv1beta1.ShadowPod) {
			s.Annotations = map[string]string{"container.apparmor.security.beta.kubernetes.io/web": "unconfined"}
		}, []string{"/metadata/annotations/container.apparmor.security.beta.kubernetes.io~1web"}},
	})
}

func TestPoliciesMustNotWeakenAContainer(t *testing.T) {
	refuse(t, map[string]weakening{
		"privileges": {plain, func(s *offloadingv1beta1.ShadowPod) {
			s.Spec.Pod.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
		}, []string{"/spec/pod/containers[name=web]/securityContext/privileged"}},
		"a container's whole context": {guarded, func(s *offloadingv1beta1.ShadowPod) { s.Spec.Pod.Containers[0].SecurityContext = nil }, []string{
			"/spec/pod/containers[name=web]/securityContext/allowPrivilegeEscalation",
			"/spec/pod/containers[name=web]/securityContext/readOnlyRootFilesystem",
			"/spec/pod/containers[name=web]/securityContext/capabilities/drop",
		}},
		"the pod's whole context, for all containers": {guarded, func(s *offloadingv1beta1.ShadowPod) {
			s.Spec.Pod.SecurityContext = nil
			s.Spec.Pod.InitContainers = nil
		}, []string{
			"/spec/pod/securityContext/supplementalGroupsPolicy",
			"/spec/pod/containers[name=web]/securityContext/runAsNonRoot",
			"/spec/pod/containers[name=web]/securityContext/runAsUser",
			"/spec/pod/containers[name=web]/securityContext/runAsGroup",
			"/spec/pod/containers[name=web]/securityContext/seccompProfile",
			"/spec/pod/containers[name=web]/securityContext/appArmorProfile",
		}},
		"root in one container, overriding the pod": {guarded, func(s *offloadingv1beta1.ShadowPod) {
			s.Spec.Pod.InitContainers[0].SecurityContext = &corev1.SecurityContext{RunAsNonRoot: ptr.To(false), RunAsUser: ptr.To[int64](0)}
		}, []string{
			"/spec/pod/initContainers[name=init]/securityContext/runAsNonRoot",
			"/spec/pod/initContainers[name=init]/securityContext/runAsUser",
		}},
		"a capability": {plain, func(s *offloadingv1beta1.ShadowPod) {
			s.Spec.Pod.Containers[0].SecurityContext = &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN"}}}
		}, []string{"/spec/pod/containers[name=web]/securityContext/capabilities/add"}},
		"no filter of system calls": {plain, func(s *offloadingv1beta1.ShadowPod) {
			s.Spec.Pod.Containers[0].SecurityContext = &corev1.SecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}}
		}, []string{"/spec/pod/containers[name=web]/securityContext/seccompProfile"}},
		"an unmasked /proc": {plain, func(s *offloadingv1beta1.ShadowPod) {
			s.Spec.Pod.Containers[0].SecurityContext = &corev1.SecurityContext{ProcMount: ptr.To(corev1.UnmaskedProcMount)}
		}, []string{"/spec/pod/containers[name=web]/securityContext/procMount"}},
		"another SELinux type": {plain, func(s *offloadingv1beta1.ShadowPod) {
			s.Spec.Pod.SecurityContext = &corev1.PodSecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Type: "spc_t"}}
		}, []string{"/spec/pod/containers[name=web]/securityContext/seLinuxOptions"}},
		"a Windows host process": {plain, func(s *offloadingv1beta1.ShadowPod) {
			s.Spec.Pod.SecurityContext = &corev1.PodSecurityContext{WindowsOptions: &corev1.WindowsSecurityContextOptions{HostProcess: ptr.To(true)}}
		}, []string{"/spec/pod/containers[name=web]/securityContext/windowsOptions/hostProcess"}},
		"a privileged sidecar": {plain, func(s *offloadingv1beta1.ShadowPod) {
			s.Spec.Pod.Containers = append(s.Spec.Pod.Containers, corev1.Container{Name: "spy", SecurityContext: &corev1.SecurityContext{Privileged: ptr.To(true)}})
		}, []string{"/spec/pod/containers[name=spy]/securityContext/privileged"}},
		"a sidecar that overrides the pod": {guarded, func(s *offloadingv1beta1.ShadowPod) {
			spy := s.Spec.Pod.Containers[0].DeepCopy()
			spy.Name, spy.VolumeMounts, spy.Ports, spy.SecurityContext.RunAsNonRoot = "spy", nil, nil, ptr.To(false)
			s.Spec.Pod.Containers = append(s.Spec.Pod.Containers, *spy)
		}, []string{"/spec/pod/containers[name=spy]/securityContext/runAsNonRoot"}},
	})
}

func TestPoliciesMustNotReachTheNode(t *testing.T) {
	refuse(t, map[string]weakening{
		"a hostPath volume and its mount": {plain, func(s *offloadingv1beta1.ShadowPod) {
			s.Spec.Pod.Volumes = []corev1.Volume{{Name: "root", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
			s.Spec.Pod.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "root", MountPath: "/host"}}
		}, []string{"/spec/pod/volumes[name=root]/hostPath", "/spec/pod/containers[name=web]/volumeMounts[mountPath=/host]"}},
		"another hostPath": {guarded, func(s *offloadingv1beta1.ShadowPod) { s.Spec.Pod.Volumes[0].HostPath.Path = "/" }, []string{"/spec/pod/volumes[name=log]/hostPath"}},
		"a writable mount": {guarded, func(s *offloadingv1beta1.ShadowPod) { s.Spec.Pod.Containers[0].VolumeMounts[0].ReadOnly = false }, []string{"/spec/pod/containers[name=web]/volumeMounts[mountPath=/log]/readOnly"}},
		"a propagated mount": {guarded, func(s *offloadingv1beta1.ShadowPod) {
			s.Spec.Pod.Containers[0].VolumeMounts[0].MountPropagation = ptr.To(corev1.MountPropagationBidirectional)
		}, []string{"/spec/pod/containers[name=web]/volumeMounts[mountPath=/log]/mountPropagation"}},
		"a port of the node": {guarded, func(s *offloadingv1beta1.ShadowPod) { s.Spec.Pod.Containers[0].Ports[0].HostPort = 80 }, []string{"/spec/pod/containers[name=web]/ports"}},
	})
}

func TestAllowedChanges(t *testing.T) {
	for name, do := range map[string]func(*offloadingv1beta1.ShadowPod){
		"nothing": func(*offloadingv1beta1.ShadowPod) {},
		"place the pod": func(s *offloadingv1beta1.ShadowPod) {
			s.Spec.Pod.NodeSelector = map[string]string{"pool": "gpu"}
			s.Spec.Pod.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
			s.Spec.Pod.Affinity = &corev1.Affinity{}
			s.Spec.Pod.SchedulerName, s.Spec.Pod.RuntimeClassName = "binpack", ptr.To("kata")
		},
		"drop labels, reserved ones too: the seal puts them back": func(s *offloadingv1beta1.ShadowPod) { s.Labels = nil },
		"label and annotate": func(s *offloadingv1beta1.ShadowPod) {
			s.Labels["team"], s.Annotations = "x", map[string]string{"a": "b"}
		},
		"change an image":       func(s *offloadingv1beta1.ShadowPod) { s.Spec.Pod.Containers[0].Image = "mirror.example.com/web" },
		"isolate more":          func(s *offloadingv1beta1.ShadowPod) { *s = *remote.PodDraft(stricter(), "shop-rome", rome) },
		"take a container away": func(s *offloadingv1beta1.ShadowPod) { s.Spec.Pod.InitContainers = nil },
		"add a sidecar as tight as the pod's own container": func(s *offloadingv1beta1.ShadowPod) {
			s.Spec.Pod.Containers = append(s.Spec.Pod.Containers, corev1.Container{Name: "proxy", SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			}})
		},
		"add an init container as tight as the pod's own": func(s *offloadingv1beta1.ShadowPod) {
			s.Spec.Pod.InitContainers = append(s.Spec.Pod.InitContainers, corev1.Container{Name: "fetch"})
		},
		"choose another user that is not root": func(s *offloadingv1beta1.ShadowPod) { s.Spec.Pod.SecurityContext.RunAsUser = ptr.To[int64](2000) },
	} {
		t.Run(name, func(t *testing.T) {
			pod := guarded()
			draft := remote.PodDraft(pod, "shop-rome", rome)
			after := draft.DeepCopy()
			do(after)
			assert.NoError(t, invariants.CheckPod(pod, draft, after))
		})
	}
}

func stricter() *corev1.Pod {
	pod := guarded()
	pod.Spec.Volumes = nil
	pod.Spec.Containers[0].VolumeMounts = nil
	pod.Spec.Containers[0].SecurityContext.Capabilities.Add = nil
	pod.Spec.InitContainers[0].SecurityContext = &corev1.SecurityContext{ReadOnlyRootFilesystem: ptr.To(true)}
	return pod
}

func TestAPrivilegedPodMayStayPrivileged(t *testing.T) {
	pod := plain()
	pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{
		Privileged: ptr.To(true), Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"CAP_SYS_ADMIN", "all"}},
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined},
	}
	draft := remote.PodDraft(pod, "ns", rome)
	after := draft.DeepCopy()
	after.Spec.Pod.Containers[0].SecurityContext.Capabilities.Add = []corev1.Capability{"SYS_ADMIN", "NET_ADMIN"}
	after.Spec.Pod.Containers[0].SecurityContext.SeccompProfile.Type = corev1.SeccompProfileTypeRuntimeDefault
	assert.NoError(t, invariants.CheckPod(pod, draft, after))
}

// Unchanged containers share memory with the draft and are not compared. A mounted volume that
// becomes a hostPath is found nevertheless.
func TestUnchangedContainersAreNotCompared(t *testing.T) {
	pod := plain()
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	draft := remote.PodDraft(pod, "ns", rome)
	after := *draft
	after.Spec.Pod.Affinity = &corev1.Affinity{}
	require.NoError(t, invariants.CheckPod(pod, draft, &after))
	after.Spec.Pod.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
	require.ErrorContains(t, invariants.CheckPod(pod, draft, &after), "/spec/pod/volumes[name=data]/hostPath")
}

func TestTheShadowPodMustNotBeWeakerThanTheLocalPod(t *testing.T) {
	pod := guarded()
	draft := remote.PodDraft(pod, "ns", rome)
	draft.Spec.Pod.HostUsers = nil
	var broken *invariants.Error
	require.ErrorAs(t, invariants.CheckPod(pod, draft, draft.DeepCopy()), &broken)
	assert.Equal(t, "/spec/pod/hostUsers", broken.Violations[0].Path)
}
