package local_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/longshore-dev/longshore/host/forge/local"
)

// podOf returns a pod with some containers of each sort and one readiness gate.
func podOf(containers int) *corev1.Pod {
	pod := &corev1.Pod{Spec: corev1.PodSpec{ReadinessGates: []corev1.PodReadinessGate{{ConditionType: "example.com/gate"}}}}
	resources := corev1.ResourceRequirements{Requests: cpu("1"), Limits: cpu("1")}
	for i := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: fmt.Sprintf("web-%d", i), Resources: resources})
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: fmt.Sprintf("init-%d", i), Resources: resources})
		pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: fmt.Sprintf("debug-%d", i)}})
	}
	return pod
}

// largestReported is the largest status of containers that a kubelet writes: it keeps 12 KiB of last messages
// of a pod, at most 4 KiB of each, of the current states and of the last ones.
func largestReported(containers int) *corev1.PodStatus {
	at := metav1.NewTime(earlier)
	terminated := &corev1.ContainerStateTerminated{
		ExitCode: 1, Reason: "ContainerCannotRun", Message: strings.Repeat("x", min(4<<10, (12<<10)/(3*containers+2))), StartedAt: at, FinishedAt: at,
		ContainerID: "containerd://" + strings.Repeat("a", 64),
	}
	of := func(sort string, count int) []corev1.ContainerStatus {
		var all []corev1.ContainerStatus
		for i := range count {
			status := corev1.ContainerStatus{
				Name: fmt.Sprintf("%s-%d", sort, i), Image: "registry.example.com:5000/" + strings.Repeat("i", 200), ImageID: "registry.example.com:5000/" + strings.Repeat("i", 200) + "@sha256:" + strings.Repeat("a", 64),
				ContainerID: "containerd://" + strings.Repeat("b", 64), RestartCount: 7, Started: ptr.To(true), Ready: true,
				State: corev1.ContainerState{Terminated: terminated}, LastTerminationState: corev1.ContainerState{Terminated: terminated},
				User: &corev1.ContainerUser{Linux: &corev1.LinuxContainerUser{UID: 1000, GID: 1000, SupplementalGroups: []int64{1, 2, 3}}},
			}
			for v := range 10 {
				status.VolumeMounts = append(status.VolumeMounts, corev1.VolumeMountStatus{Name: fmt.Sprintf("volume-%d", v), MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true, RecursiveReadOnly: ptr.To(corev1.RecursiveReadOnlyDisabled)})
			}
			all = append(all, status)
		}
		return all
	}
	status := &corev1.PodStatus{
		Phase: corev1.PodRunning, Message: strings.Repeat("m", 1024), Reason: "Evicted", StartTime: &at,
		ContainerStatuses: of("web", containers), InitContainerStatuses: of("init", containers), EphemeralContainerStatuses: of("debug", containers),
	}
	for _, kind := range []corev1.PodConditionType{
		corev1.PodScheduled, corev1.PodReady, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReadyToStartContainers, corev1.DisruptionTarget, corev1.PodResizePending,
		"example.com/gate", "mesh.example.com/Ready", "cloud.example.com/TargetHealth",
	} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, Reason: "SomeReason", Message: strings.Repeat("c", 1024), LastTransitionTime: at})
	}
	return status
}

// What kubelets and controllers of an honest provider report is copied as it is.
func TestAnHonestStatusHasRoom(t *testing.T) {
	for _, containers := range []int{1, 2, 5, 20, 40} {
		t.Run(fmt.Sprint(containers, " of each sort"), func(t *testing.T) {
			reported := largestReported(containers)
			status := local.PodStatus(local.PodStatusInput{Local: podOf(containers), Remote: &corev1.Pod{Status: *reported.DeepCopy()}, Now: now})
			assert.Equal(t, reported, status)
		})
	}
}

// Every container of a pod has its status: kubectl shows how many of them are ready. Containers that the
// provider adds have none.
func TestAllContainersOfALargePodHaveAStatus(t *testing.T) {
	for _, containers := range []int{127, 128, 129, 300} {
		t.Run(fmt.Sprint(containers, " of each sort"), func(t *testing.T) {
			pod := podOf(containers)
			want := map[string]bool{}
			remote := &corev1.Pod{}
			add := func(statuses *[]corev1.ContainerStatus, name string, ofThePod bool) {
				want[name] = want[name] || ofThePod
				*statuses = append(*statuses, corev1.ContainerStatus{Name: name, Ready: true})
			}
			for i := range 200 {
				add(&remote.Status.ContainerStatuses, fmt.Sprint("injected-", i), false)
			}
			for i := range containers {
				add(&remote.Status.ContainerStatuses, pod.Spec.Containers[i].Name, true)
				add(&remote.Status.InitContainerStatuses, pod.Spec.InitContainers[i].Name, true)
				add(&remote.Status.EphemeralContainerStatuses, pod.Spec.EphemeralContainers[i].Name, true)
			}
			remote.Status.ContainerStatuses = append(remote.Status.ContainerStatuses, remote.Status.ContainerStatuses...)
			status := local.PodStatus(local.PodStatusInput{Local: pod, Remote: remote, Now: now})
			got := map[string]bool{}
			for _, statuses := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses} {
				assert.Len(t, statuses, containers)
				for i := range statuses {
					got[statuses[i].Name] = true
				}
			}
			for name, ofThePod := range want {
				assert.Equal(t, ofThePod, got[name], name)
			}
		})
	}
}

// fill sets every text below a value to one of some bytes, and every list to some items.
func fill(v reflect.Value, items, bytes int) {
	switch v.Kind() { //nolint:exhaustive // Others stay as they are.
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString(strings.Repeat("y", bytes))
	case reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), items, bytes)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), items, items))
		for i := range items {
			fill(v.Index(i), items, bytes)
		}
	case reflect.Struct:
		switch value := v.Addr().Interface().(type) {
		case *metav1.Time:
			*value = metav1.NewTime(earlier)
		case *resource.Quantity:
			*value = resource.MustParse("1")
		default:
			for i := range v.NumField() {
				fill(v.Field(i), items, bytes)
			}
		}
	}
}

// hostileStatuses are statuses with much in one field, and in all of them.
func hostileStatuses() map[string]corev1.PodStatus {
	const eachList = 120
	long := strings.Repeat("z", 8<<10)
	full := corev1.PodStatus{}
	fill(reflect.ValueOf(&full).Elem(), 7, 2048)
	for i := range full.Conditions {
		full.Conditions[i].Type = corev1.PodConditionType(fmt.Sprintf("example.com/%d", i))
	}
	hostile := map[string]corev1.PodStatus{"everything": full}
	fields := reflect.TypeFor[corev1.PodStatus]()
	for i := range fields.NumField() {
		if field := fields.Field(i); field.Type.Kind() == reflect.Slice {
			status := corev1.PodStatus{}
			items := reflect.MakeSlice(field.Type, eachList, eachList)
			for n := range eachList {
				for f := range items.Index(n).NumField() {
					if text := items.Index(n).Field(f); text.Kind() == reflect.String {
						text.SetString(long)
					}
				}
			}
			reflect.ValueOf(&status).Elem().Field(i).Set(items)
			for n := range status.Conditions {
				status.Conditions[n].Type = corev1.PodConditionType(fmt.Sprintf("example.com/%d", n))
			}
			hostile[field.Name] = status
		}
	}
	of := func(alter func(*corev1.ContainerStatus)) (status corev1.PodStatus) {
		for i := range eachList {
			container := corev1.ContainerStatus{Name: fmt.Sprintf("web-%d", i%2), Ready: i < 2}
			alter(&container)
			status.ContainerStatuses = append(status.ContainerStatuses, container)
		}
		return status
	}
	hostile["messages of containers that wait"] = of(func(s *corev1.ContainerStatus) { s.State.Waiting = &corev1.ContainerStateWaiting{Message: long} })
	hostile["messages of containers that ended"] = of(func(s *corev1.ContainerStatus) { s.State.Terminated = &corev1.ContainerStateTerminated{Message: long} })
	hostile["last messages"] = of(func(s *corev1.ContainerStatus) {
		s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Message: long}
	})
	hostile["mounts"] = of(func(s *corev1.ContainerStatus) {
		s.VolumeMounts = make([]corev1.VolumeMountStatus, 128)
		for i := range s.VolumeMounts {
			s.VolumeMounts[i].MountPath = long
		}
	})
	hostile["groups"] = of(func(s *corev1.ContainerStatus) {
		s.User = &corev1.ContainerUser{Linux: &corev1.LinuxContainerUser{SupplementalGroups: make([]int64, 1<<10)}}
	})
	return hostile
}

// withReady says that the containers of a pod are ready, those that a hostile status has and others.
func withReady(statuses []corev1.ContainerStatus, containers []corev1.Container) []corev1.ContainerStatus {
	statuses = slices.Clone(statuses)
	for i := range containers {
		name := containers[i].Name
		if !slices.ContainsFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == name }) {
			statuses = append(statuses, corev1.ContainerStatus{Name: name})
		}
	}
	for i := range statuses {
		statuses[i].Ready = true
	}
	return statuses
}

// A provider fills etcd and the memory of the consumer's controllers neither with one field of a status nor
// with all of them, nor with what its statuses leave behind in the local pod.
func TestAHostileStatusIsSmall(t *testing.T) {
	long := strings.Repeat("z", 8<<10)
	for name, reported := range hostileStatuses() {
		for _, containers := range []int{0, 1, 2, 10} {
			t.Run(fmt.Sprintf("%s, %d containers of each sort", name, containers), func(t *testing.T) {
				room := 48<<10 + 3*containers*(4<<10)
				reported.Phase = corev1.PodRunning
				reported.Conditions = append(reported.Conditions[:len(reported.Conditions):len(reported.Conditions)], corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(earlier)})
				pod := podOf(containers)
				remote := &corev1.Pod{Status: reported}
				remote.Status.ContainerStatuses = withReady(reported.ContainerStatuses, pod.Spec.Containers)
				before := remote.DeepCopy()
				in := local.PodStatusInput{Local: pod, Remote: remote, NodeIP: "127.0.0.9", Now: now}
				status := local.PodStatus(in)
				assert.LessOrEqual(t, status.Size(), room)
				assert.Equal(t, corev1.PodRunning, status.Phase)
				assert.True(t, local.IsReady(status))
				assert.Equal(t, before, remote, "the remote pod is shared")
				assert.Equal(t, status, local.PodStatus(in), "the same each time")

				in.Local.Status = *status
				for n := range 3 {
					renamed := remote.DeepCopy()
					for i := range renamed.Status.ContainerStatuses {
						container := &renamed.Status.ContainerStatuses[i]
						container.Name += fmt.Sprint("-", n)
						container.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: long}}
					}
					in.Remote = renamed
					status := local.PodStatus(in)
					assert.LessOrEqual(t, status.Size(), room, "containers that ended are kept, and the provider invents others")
					in.Local.Status = *status
				}
			})
		}
	}
}

// What is cut of a status without room, in this order.
func TestWhatIsCutFirst(t *testing.T) {
	status := func(conditions, bytes, mounts int) *corev1.PodStatus {
		reported := corev1.PodStatus{
			Phase: corev1.PodRunning, Message: strings.Repeat("m", 512),
			ContainerStatuses: []corev1.ContainerStatus{
				{Name: "web-0", Ready: true, Image: "nginx", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(earlier)}}},
			},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, Message: strings.Repeat("r", 512)}, {Type: "example.com/gate", Status: corev1.ConditionTrue}},
		}
		for i := range conditions {
			reported.Conditions = append(reported.Conditions, corev1.PodCondition{Type: corev1.PodConditionType(fmt.Sprintf("example.com/%d", i)), Status: corev1.ConditionTrue, Message: strings.Repeat("c", bytes)})
		}
		for range mounts {
			reported.ContainerStatuses[0].VolumeMounts = append(reported.ContainerStatuses[0].VolumeMounts, corev1.VolumeMountStatus{MountPath: strings.Repeat("p", 1024)})
		}
		return local.PodStatus(local.PodStatusInput{Local: podOf(1), Remote: &corev1.Pod{Status: reported}, Now: now})
	}
	for name, tc := range map[string]struct {
		conditions, bytes, mounts           int
		message, conditionsLeft, mountsLeft int
	}{
		"nothing":  {conditions: 5, bytes: 1024, mounts: 10, message: 512, conditionsLeft: 7, mountsLeft: 10},
		"messages": {conditions: 50, bytes: 2048, mounts: 10, message: 256, conditionsLeft: 52, mountsLeft: 10},
		"then conditions that Kubernetes has not": {conditions: 120, bytes: 2048, mounts: 40, message: 256, conditionsLeft: 2, mountsLeft: 40},
		"then details": {conditions: 120, bytes: 2048, mounts: 100, message: 256, conditionsLeft: 2, mountsLeft: 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := status(tc.conditions, tc.bytes, tc.mounts)
			assert.Len(t, got.Message, tc.message)
			assert.Len(t, got.Conditions, tc.conditionsLeft)
			require.Len(t, got.ContainerStatuses, 1)
			assert.Len(t, got.ContainerStatuses[0].VolumeMounts, tc.mountsLeft)
			assert.Equal(t, corev1.PodRunning, got.Phase)
			assert.True(t, local.IsReady(got))
			web := got.ContainerStatuses[0]
			assert.True(t, web.Ready && web.Image == "nginx" && web.State.Running.StartedAt.Time.Equal(earlier.Truncate(time.Second)))
		})
	}
}

// Conditions of readiness gates that the consumer's controllers have set are theirs.
func TestLocalGatesAreNotCut(t *testing.T) {
	own := corev1.PodCondition{Type: "example.com/gate", Status: corev1.ConditionTrue, Message: strings.Repeat("g", 2048)}
	pod := podOf(1)
	pod.Status.Conditions = []corev1.PodCondition{own}
	reported := corev1.PodStatus{}
	for i := range 120 {
		reported.Conditions = append(reported.Conditions, corev1.PodCondition{
			Type: corev1.PodConditionType(fmt.Sprintf("example.com/%d", i)), Message: strings.Repeat("c", 4096), Reason: strings.Repeat("c", 4096),
		})
	}
	status := local.PodStatus(local.PodStatusInput{Local: pod, Remote: &corev1.Pod{Status: reported}, LocalGates: []corev1.PodCondition{own}, Now: now})
	assert.Contains(t, status.Conditions, own)
	assert.Len(t, status.Conditions, 1, "the rest has no room")
}

// Conditions of the provider take no place of those that Kubernetes reads.
func TestForeignConditionsTakeNoPlace(t *testing.T) {
	var conditions []corev1.PodCondition
	for i := range 300 {
		kind := corev1.PodConditionType(fmt.Sprint("example.com/", i))
		if i >= 150 {
			kind = corev1.PodInitialized
		}
		conditions = append(conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue})
	}
	conditions = append(conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
	status := local.PodStatus(local.PodStatusInput{Local: podOf(1), Remote: &corev1.Pod{Status: corev1.PodStatus{Conditions: conditions}}, Now: now})
	var kinds []corev1.PodConditionType
	for _, condition := range status.Conditions {
		kinds = append(kinds, condition.Type)
	}
	assert.Equal(t, []corev1.PodConditionType{corev1.PodInitialized, corev1.PodReady}, kinds)
}
