package invariants_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/invariants"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/internal/testkit"
	"github.com/longshore-dev/longshore/host/policy/operation"
)

var update = flag.Bool("update", false, "write docs/reference/invariants.md")

// A Kubernetes upgrade that adds a field fails until the table has a row for it.
func TestEveryFieldHasARow(t *testing.T) {
	rows := map[string]invariants.Row{}
	for _, row := range invariants.Table() {
		name := row.Type + "." + row.Field
		assert.NotContains(t, rows, name, "a field stands once")
		assert.NotEmpty(t, row.Text, name)
		rows[name] = row
	}
	for _, of := range invariants.Types() {
		for i := range of.NumField() {
			name := of.Name() + "." + of.Field(i).Name
			assert.Contains(t, rows, name, "decide whether policies may write it, and how it is guarded")
			delete(rows, name)
		}
	}
	assert.Empty(t, rows, "rows of fields that are not there")
}

func TestPartsHaveTheirOwnTable(t *testing.T) {
	covered := map[string]bool{}
	for _, of := range invariants.Types() {
		covered[of.Name()] = true
	}
	// These types lead to a covered type and have no rows of their own.
	for _, wrapper := range []string{"Volume", "EnvVar", "Probe", "Lifecycle", "ProjectedVolumeSource"} {
		covered[wrapper] = true
	}
	for _, of := range invariants.Types() {
		for _, row := range invariants.Table() {
			if row.Type != of.Name() || row.Kind != invariants.Nested {
				continue
			}
			field, _ := of.FieldByName(row.Field)
			kind := field.Type
			for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice {
				kind = kind.Elem()
			}
			assert.True(t, covered[kind.Name()], "%s.%s leads to %s, which has no table", row.Type, row.Field, kind.Name())
		}
	}
}

func TestHarmlessFieldsAreTheFreeFieldsOfThePodSpec(t *testing.T) {
	spec := reflect.TypeFor[corev1.PodSpec]()
	for _, row := range invariants.Table() {
		if row.Type != spec.Name() {
			continue
		}
		field, _ := spec.FieldByName(row.Field)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		assert.Equal(t, row.Kind == invariants.Free, invariants.HarmlessField(name), name)
	}
}

func first(s *offloadingv1beta1.ShadowPod) *corev1.Container { return &s.Spec.Pod.Containers[0] }

func firstContext(s *offloadingv1beta1.ShadowPod) *corev1.SecurityContext {
	return first(s).SecurityContext
}

func podContext(s *offloadingv1beta1.ShadowPod) *corev1.PodSecurityContext {
	return s.Spec.Pod.SecurityContext
}

func windows(s *offloadingv1beta1.ShadowPod) *corev1.WindowsSecurityContextOptions {
	firstContext(s).WindowsOptions = &corev1.WindowsSecurityContextOptions{}
	return firstContext(s).WindowsOptions
}

func mountOf(s *offloadingv1beta1.ShadowPod) *corev1.VolumeMount { return &first(s).VolumeMounts[0] }

func project(s *offloadingv1beta1.ShadowPod, source corev1.VolumeProjection) {
	s.Spec.Pod.Volumes[1].Projected.Sources = append(s.Spec.Pod.Volumes[1].Projected.Sources, source)
}

func env(s *offloadingv1beta1.ShadowPod, source corev1.EnvVarSource) {
	first(s).Env = append(first(s).Env, corev1.EnvVar{Name: "E", ValueFrom: &source})
}

// weaken breaks the rule of each guarded field, in a draft of the pod of guarded.
func weaken() map[string]func(shadow) {
	all := weakenPod()
	maps.Copy(all, weakenContext())
	maps.Copy(all, weakenContainer())
	return all
}

type shadow = *offloadingv1beta1.ShadowPod

func weakenPod() map[string]func(shadow) {
	return map[string]func(shadow){
		"PodSpec.HostNetwork":                  func(s shadow) { s.Spec.Pod.HostNetwork = true },
		"PodSpec.HostPID":                      func(s shadow) { s.Spec.Pod.HostPID = true },
		"PodSpec.HostIPC":                      func(s shadow) { s.Spec.Pod.HostIPC = true },
		"PodSpec.HostUsers":                    func(s shadow) { s.Spec.Pod.HostUsers = ptr.To(true) },
		"PodSpec.ShareProcessNamespace":        func(s shadow) { s.Spec.Pod.ShareProcessNamespace = ptr.To(true) },
		"PodSpec.NodeName":                     func(s shadow) { s.Spec.Pod.NodeName = "n" },
		"PodSpec.ServiceAccountName":           func(s shadow) { s.Spec.Pod.ServiceAccountName = "admin" },
		"PodSpec.DeprecatedServiceAccount":     func(s shadow) { s.Spec.Pod.DeprecatedServiceAccount = "admin" },
		"PodSpec.AutomountServiceAccountToken": func(s shadow) { s.Spec.Pod.AutomountServiceAccountToken = ptr.To(true) },
		"PodSpec.EphemeralContainers":          func(s shadow) { s.Spec.Pod.EphemeralContainers = make([]corev1.EphemeralContainer, 1) },
		"PodSpec.OS":                           func(s shadow) { s.Spec.Pod.OS = &corev1.PodOS{Name: corev1.Windows} },
		"PodSpec.PriorityClassName":            func(s shadow) { s.Spec.Pod.PriorityClassName = "system-node-critical" },

		"PodSecurityContext.SupplementalGroups":       func(s shadow) { podContext(s).SupplementalGroups = []int64{7, 8} },
		"PodSecurityContext.SupplementalGroupsPolicy": func(s shadow) { podContext(s).SupplementalGroupsPolicy = ptr.To(corev1.SupplementalGroupsPolicyMerge) },
		"PodSecurityContext.FSGroup":                  func(s shadow) { podContext(s).FSGroup = ptr.To[int64](0) },
		"PodSecurityContext.Sysctls":                  func(s shadow) { podContext(s).Sysctls = []corev1.Sysctl{{Name: "kernel/x", Value: "1"}} },
		"PodSecurityContext.RunAsUser":                func(s shadow) { podContext(s).RunAsUser = nil },
		"PodSecurityContext.RunAsGroup":               func(s shadow) { podContext(s).RunAsGroup = ptr.To[int64](0) },
		"PodSecurityContext.RunAsNonRoot":             func(s shadow) { podContext(s).RunAsNonRoot = nil },
		"PodSecurityContext.SeccompProfile":           func(s shadow) { podContext(s).SeccompProfile = nil },
		"PodSecurityContext.AppArmorProfile":          func(s shadow) { podContext(s).AppArmorProfile = nil },
		"PodSecurityContext.SELinuxOptions":           func(s shadow) { podContext(s).SELinuxOptions = &corev1.SELinuxOptions{Level: "s0"} },
	}
}

func weakenContext() map[string]func(shadow) {
	unconfined := corev1.SeccompProfileTypeUnconfined
	return map[string]func(shadow){
		"SecurityContext.Privileged":               func(s shadow) { firstContext(s).Privileged = ptr.To(true) },
		"SecurityContext.AllowPrivilegeEscalation": func(s shadow) { firstContext(s).AllowPrivilegeEscalation = nil },
		"SecurityContext.ReadOnlyRootFilesystem":   func(s shadow) { firstContext(s).ReadOnlyRootFilesystem = ptr.To(false) },
		"SecurityContext.ProcMount":                func(s shadow) { firstContext(s).ProcMount = ptr.To(corev1.ProcMountType("Tomorrows")) },
		"SecurityContext.RunAsNonRoot":             func(s shadow) { firstContext(s).RunAsNonRoot = ptr.To(false) },
		"SecurityContext.RunAsUser":                func(s shadow) { firstContext(s).RunAsUser = ptr.To[int64](0) },
		"SecurityContext.RunAsGroup":               func(s shadow) { firstContext(s).RunAsGroup = ptr.To[int64](0) },
		"SecurityContext.SeccompProfile":           func(s shadow) { firstContext(s).SeccompProfile = &corev1.SeccompProfile{Type: unconfined} },
		"SecurityContext.AppArmorProfile": func(s shadow) {
			firstContext(s).AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: ptr.To("lax")}
		},
		"SecurityContext.SELinuxOptions": func(s shadow) { firstContext(s).SELinuxOptions = &corev1.SELinuxOptions{Type: "spc_t"} },
		"Capabilities.Add": func(s shadow) {
			firstContext(s).Capabilities.Add = []corev1.Capability{"NET_BIND_SERVICE", "NET_ADMIN"}
		},
		"Capabilities.Drop": func(s shadow) { firstContext(s).Capabilities.Drop = []corev1.Capability{"NET_ADMIN"} },

		"WindowsSecurityContextOptions.HostProcess":            func(s shadow) { windows(s).HostProcess = ptr.To(true) },
		"WindowsSecurityContextOptions.RunAsUserName":          func(s shadow) { windows(s).RunAsUserName = ptr.To("containeradministrator") },
		"WindowsSecurityContextOptions.GMSACredentialSpec":     func(s shadow) { windows(s).GMSACredentialSpec = ptr.To("{}") },
		"WindowsSecurityContextOptions.GMSACredentialSpecName": func(s shadow) { windows(s).GMSACredentialSpecName = ptr.To("admin") },
	}
}

func weakenContainer() map[string]func(shadow) {
	return map[string]func(shadow){
		"Container.Name": func(s shadow) { first(s).Name, first(s).SecurityContext = "web2", nil },
		"Container.RestartPolicy": func(s shadow) {
			s.Spec.Pod.InitContainers[0].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		},
		"ContainerPort.HostPort": func(s shadow) { first(s).Ports[0].HostPort = 80 },
		"ContainerPort.HostIP":   func(s shadow) { first(s).Ports[1].HostIP = "" },
		"ContainerPort.Protocol": func(s shadow) { first(s).Ports[1].Protocol = corev1.ProtocolUDP },
		"EnvVarSource.SecretKeyRef": func(s shadow) {
			env(s, corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "other"}}})
		},
		"EnvFromSource.SecretRef": func(s shadow) {
			first(s).EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "other"}}}}
		},
		"HTTPGetAction.Host": func(s shadow) { first(s).LivenessProbe.HTTPGet.Host = "169.254.169.254" },
		"TCPSocketAction.Host": func(s shadow) {
			first(s).Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{TCPSocket: &corev1.TCPSocketAction{Host: "10.0.0.1"}}}
		},

		"VolumeMount.Name":              func(s shadow) { first(s).VolumeMounts[1].Name = "log" },
		"VolumeMount.ReadOnly":          func(s shadow) { mountOf(s).ReadOnly = false },
		"VolumeMount.RecursiveReadOnly": func(s shadow) { mountOf(s).RecursiveReadOnly = ptr.To(corev1.RecursiveReadOnlyIfPossible) },
		"VolumeMount.MountPropagation":  func(s shadow) { mountOf(s).MountPropagation = ptr.To(corev1.MountPropagationHostToContainer) },
		"VolumeMount.BindMountOptions":  func(s shadow) { mountOf(s).BindMountOptions = nil },
		"VolumeMount.SubPath":           func(s shadow) { mountOf(s).SubPath = "" },
		"VolumeMount.SubPathExpr":       func(s shadow) { mountOf(s).SubPathExpr = "$(X)" },

		"VolumeSource.Secret": func(s shadow) {
			s.Spec.Pod.Volumes = append(s.Spec.Pod.Volumes, corev1.Volume{Name: "x", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "other"}}})
		},
		"VolumeProjection.Secret": func(s shadow) {
			project(s, corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "other"}}})
		},
		"VolumeProjection.ServiceAccountToken": func(s shadow) {
			project(s, corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "t"}})
		},
		"VolumeProjection.PodCertificate": func(s shadow) { s.Spec.Pod.Volumes[1].Projected.Sources[0].PodCertificate.SignerName = "other" },
	}
}

func TestEveryGuardedFieldIsGuarded(t *testing.T) {
	cases := weaken()
	sources := reflect.TypeFor[corev1.VolumeSource]()
	for _, row := range invariants.Table() {
		name := row.Type + "." + row.Field
		if row.Kind != invariants.Guarded {
			assert.NotContains(t, cases, name)
			continue
		}
		do := cases[name]
		if row.Type == sources.Name() && do == nil {
			do = func(s *offloadingv1beta1.ShadowPod) {
				volume := corev1.Volume{Name: "x"}
				source := reflect.ValueOf(&volume.VolumeSource).Elem().FieldByName(row.Field)
				source.Set(reflect.New(source.Type().Elem()))
				s.Spec.Pod.Volumes = append(s.Spec.Pod.Volumes, volume)
			}
		}
		t.Run(name, func(t *testing.T) {
			require.NotNil(t, do, "no test breaks the rule")
			pod := guarded()
			draft := remote.PodDraft(pod, "shop-rome", rome)
			require.NoError(t, invariants.CheckPod(pod, draft, draft.DeepCopy()), "the draft is valid")
			after := draft.DeepCopy()
			do(after)
			require.NotEqual(t, draft, after)
			requireViolation(t, invariants.CheckPod(pod, draft, after))

			// The same rules apply at admission.
			owned := &corev1.Pod{ObjectMeta: draft.ObjectMeta, Spec: draft.Spec.Pod}
			changed := &corev1.Pod{ObjectMeta: after.ObjectMeta, Spec: after.Spec.Pod}
			require.NoError(t, invariants.CheckAdmission(owned, owned.DeepCopy()))
			requireViolation(t, invariants.CheckAdmission(owned, changed))
		})
	}
}

func requireViolation(t *testing.T, err error) {
	t.Helper()
	var broken *invariants.Error
	require.ErrorAs(t, err, &broken)
	for _, cause := range broken.Causes() {
		_, err := operation.ParsePath(cause)
		assert.NoError(t, err, "causes are compared with the paths of operations")
	}
}

// places returns a value of each type in a draft.
func places(s *offloadingv1beta1.ShadowPod) map[string]any {
	spec := &s.Spec.Pod
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "new"})
	first(s).Env = append(first(s).Env, corev1.EnvVar{Name: "NEW", ValueFrom: &corev1.EnvVarSource{}})
	first(s).EnvFrom = append(first(s).EnvFrom, corev1.EnvFromSource{})
	first(s).Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{}, PreStop: &corev1.LifecycleHandler{TCPSocket: &corev1.TCPSocketAction{}}}
	first(s).StartupProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{}}}
	project(s, corev1.VolumeProjection{})
	sources := spec.Volumes[1].Projected.Sources
	return map[string]any{
		"PodSpec": spec, "PodSecurityContext": spec.SecurityContext, "Container": first(s), "ContainerPort": &first(s).Ports[0],
		"SecurityContext": first(s).SecurityContext, "EnvVarSource": first(s).Env[len(first(s).Env)-1].ValueFrom, "EnvFromSource": &first(s).EnvFrom[0],
		"ProbeHandler": &first(s).StartupProbe.ProbeHandler, "LifecycleHandler": first(s).Lifecycle.PostStart, "HTTPGetAction": first(s).LivenessProbe.HTTPGet,
		"TCPSocketAction": first(s).Lifecycle.PreStop.TCPSocket, "GRPCAction": first(s).StartupProbe.GRPC,
		"VolumeMount": &first(s).VolumeMounts[1], "VolumeSource": &spec.Volumes[len(spec.Volumes)-1].VolumeSource, "VolumeProjection": &sources[len(sources)-1],
	}
}

func TestEveryFreeFieldIsFree(t *testing.T) {
	for _, row := range invariants.Table() {
		if row.Kind != invariants.Free {
			continue
		}
		t.Run(row.Type+"."+row.Field, func(t *testing.T) {
			pod := guarded()
			draft := remote.PodDraft(pod, "shop-rome", rome)
			after := draft.DeepCopy()
			place, ok := places(after)[row.Type]
			require.True(t, ok, "places has no %s", row.Type)
			field := reflect.ValueOf(place).Elem().FieldByName(row.Field)
			testkit.Fill(field, 6)
			require.False(t, field.IsZero())
			assert.NoError(t, invariants.CheckPod(pod, draft, after))
		})
	}
}

const document = "../../../docs/reference/invariants.md"

func TestTheDocumentIsGeneratedFromTheTable(t *testing.T) {
	want := render()
	if *update {
		require.NoError(t, os.WriteFile(document, []byte(want), 0o644))
	}
	got, err := os.ReadFile(document)
	require.NoError(t, err)
	assert.Equal(t, want, string(got), "run go test ./host/forge/invariants -run Document -update")
}

func render() string {
	var out strings.Builder
	intro, err := os.ReadFile("testdata/invariants.intro.md")
	if err != nil {
		return err.Error()
	}
	out.Write(intro)
	rows := map[string]invariants.Row{}
	for _, row := range invariants.Table() {
		rows[row.Type+"."+row.Field] = row
	}
	order := []invariants.Kind{invariants.Guarded, invariants.Nested, invariants.Free}
	for _, of := range invariants.Types() {
		fmt.Fprintf(&out, "\n### %s\n\n| field | | rule, or why it is free |\n|---|---|---|\n", of.Name())
		var listed []invariants.Row
		for i := range of.NumField() {
			listed = append(listed, rows[of.Name()+"."+of.Field(i).Name])
		}
		slices.SortStableFunc(listed, func(a, b invariants.Row) int { return slices.Index(order, a.Kind) - slices.Index(order, b.Kind) })
		for _, row := range listed {
			field, _ := of.FieldByName(row.Field)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			fmt.Fprintf(&out, "| `%s` | %s | %s |\n", name, row.Kind, row.Text)
		}
	}
	return out.String()
}
