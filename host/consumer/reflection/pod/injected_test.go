package pod

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
)

func never(pod *corev1.Pod) { pod.Spec.RestartPolicy = corev1.RestartPolicyNever }

func exited(name string, code int32) podOption {
	return func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}},
		})
	}
}

// A sidecar that the provider adds does not keep a Job from completing, and ends with it.
func TestInjectedContainers(t *testing.T) {
	const end, upToDate = ", spec /spec/pod/activeDeadlineSeconds=1", ", keep MetadataUpToDate"
	deadline := func(shadow *offloadingv1beta1.ShadowPod) { shadow.Spec.Pod.ActiveDeadlineSeconds = ptr.To[int64](1) }
	for name, tc := range map[string]struct {
		local  *corev1.Pod
		shadow *offloadingv1beta1.ShadowPod
		remote *corev1.Pod
		want   string
	}{
		"both run": {
			localPod(never), shadowPod(), remotePod(running, container("web", 0), container("proxy", 0)), "event ContainersInjected, status Running" + upToDate,
		},
		"both run, which is known": {
			localPod(never, running, container("web", 0)), shadowPod(), remotePod(running, ready, container("web", 0), container("proxy", 0)), "status Running" + upToDate,
		},
		"the pod's own container has ended": {
			localPod(never, running, container("web", 0)), shadowPod(), remotePod(running, exited("web", 0), container("proxy", 0)), "status Succeeded" + end + upToDate,
		},
		"the remote pod has the deadline": {
			localPod(never, phase(corev1.PodSucceeded), exited("web", 0)), shadowPod(deadline), remotePod(running, exited("web", 0), container("proxy", 0)), "keep StatusUnchanged" + upToDate,
		},
		"the provider is told again": {
			localPod(never, phase(corev1.PodSucceeded), exited("web", 0)), shadowPod(), remotePod(running, exited("web", 0), container("proxy", 0)), "keep StatusUnchanged" + end + upToDate,
		},
		"the deadline has passed": {
			localPod(never, phase(corev1.PodSucceeded), exited("web", 0)), shadowPod(deadline, shadowPhase(corev1.PodFailed)),
			remotePod(phase(corev1.PodFailed, "DeadlineExceeded"), exited("web", 0), exited("proxy", 137)), "keep StatusUnchanged" + upToDate,
		},
		"it is deleted": {
			localPod(never, running, deleting, container("web", 0)), shadowPod(shadowDeleting), remotePod(running, exited("web", 0), container("proxy", 0)), "status Succeeded",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := definition(&policies{})
			in := input(tc.local, tc.shadow, tc.remote)
			tc.local.Status.HostIP, tc.local.Status.HostIPs = "10.9.9.9", []corev1.HostIP{{IP: "10.9.9.9"}}
			in.Memory = memory{localUID: "local-1", remoteUID: "remote-1", sourceHash: d.hashSource(observe(input(tc.local, nil, nil))), metadataHash: hashMetadata(tc.shadow.Labels, tc.shadow.Annotations)}
			actions, err := decide(t.Context(), d, in)
			require.NoError(t, err)
			assert.Equal(t, tc.want, summary(actions))
			for _, action := range actions {
				patch, ok := action.(engine.PatchRemoteSpec)
				if !ok {
					continue
				}
				assert.Equal(t, "wait RefusedChange", summary(patch.Refused("no")))
				in = remember(in, patch.Refused("no"))
				in.Facts.Now = now.Add(time.Minute)
				again, err := decide(t.Context(), d, in)
				require.NoError(t, err)
				assert.NotContains(t, summary(again), "spec ", "a provider that refuses it is not asked each time")
			}
		})
	}
}
