package processnode

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestBackoffDoublesUpToAMinuteAndForgets(t *testing.T) {
	var got []time.Duration
	var pause time.Duration
	for range 8 {
		pause = backoff(pause, time.Second)
		got = append(got, pause)
	}
	assert.Equal(t, []time.Duration{1, 2, 4, 8, 16, 32, 60, 60}, inSeconds(got))
	assert.Equal(t, time.Second, backoff(time.Minute, backoffReset), "a long run is forgiven")
	assert.Equal(t, time.Minute, backoff(time.Minute, backoffReset-1))
}

func inSeconds(durations []time.Duration) []time.Duration {
	for i := range durations {
		durations[i] /= time.Second
	}
	return durations
}

func TestRestartable(t *testing.T) {
	cases := map[string]struct {
		policy     corev1.RestartPolicy
		onZero, on bool
	}{
		"Always":    {corev1.RestartPolicyAlways, true, true},
		"OnFailure": {corev1.RestartPolicyOnFailure, false, true},
		"Never":     {corev1.RestartPolicyNever, false, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.onZero, restartable(tc.policy, 0))
			assert.Equal(t, tc.on, restartable(tc.policy, 1))
		})
	}
}

func running() *containerState {
	return &containerState{name: "c", running: true, startedUp: true, ready: true}
}

func ended(code int32) *containerState {
	return &containerState{name: "c", ended: &corev1.ContainerStateTerminated{ExitCode: code}}
}

func waiting(reason string, restarts int32) *containerState {
	c := &containerState{name: "c", restarts: restarts, waiting: &corev1.ContainerStateWaiting{Reason: reason}}
	if restarts > 0 {
		c.last = &corev1.ContainerStateTerminated{ExitCode: 1}
	}
	return c
}

func TestPhase(t *testing.T) {
	cases := map[string]struct {
		facts podFacts
		want  corev1.PodPhase
	}{
		"nothing began":                    {podFacts{containers: []*containerState{{}}}, corev1.PodPending},
		"its configuration is missing":     {podFacts{containers: []*containerState{waiting(reasonConfigError, 0)}}, corev1.PodPending},
		"init containers run":              {podFacts{inits: []*containerState{running()}, containers: []*containerState{{}}}, corev1.PodPending},
		"it runs":                          {podFacts{initialized: true, containers: []*containerState{running()}}, corev1.PodRunning},
		"one of two runs":                  {podFacts{initialized: true, containers: []*containerState{running(), {}}}, corev1.PodRunning},
		"a crash loop is running":          {podFacts{initialized: true, containers: []*containerState{waiting(reasonCrashLoop, 1)}}, corev1.PodRunning},
		"ended, and may start again":       {podFacts{initialized: true, containers: []*containerState{ended(1)}}, corev1.PodRunning},
		"over, all well":                   {podFacts{initialized: true, over: true, containers: []*containerState{ended(0), ended(0)}}, corev1.PodSucceeded},
		"over, one failed":                 {podFacts{initialized: true, over: true, containers: []*containerState{ended(0), ended(2)}}, corev1.PodFailed},
		"over, an init container failed":   {podFacts{over: true, inits: []*containerState{ended(1)}, containers: []*containerState{{}}}, corev1.PodFailed},
		"deleted before anything began":    {podFacts{over: true, containers: []*containerState{{}}}, corev1.PodPending},
		"deleted in a crash loop":          {podFacts{initialized: true, over: true, containers: []*containerState{waiting(reasonCrashLoop, 3)}}, corev1.PodRunning},
		"it asks for what we have not got": {podFacts{failure: errors.New("no"), containers: []*containerState{{}}}, corev1.PodFailed},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, phase(tc.facts)) })
	}
}

func TestContainerStatus(t *testing.T) {
	cases := map[string]struct {
		state   *containerState
		ready   bool
		started bool
		waiting string
		exit    int32
	}{
		"not begun":                    {state: &containerState{}, waiting: reasonCreating},
		"running and ready":            {state: running(), ready: true, started: true},
		"running, not started up":      {state: &containerState{running: true, ready: true}},
		"running, not ready":           {state: &containerState{running: true, startedUp: true}, started: true},
		"waiting wins over how it was": {state: waiting(reasonCrashLoop, 1), waiting: reasonCrashLoop},
		"ended":                        {state: ended(3), exit: 3},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			status := tc.state.status(reasonCreating)
			assert.Equal(t, tc.ready, status.Ready)
			assert.Equal(t, tc.started, *status.Started)
			if tc.waiting != "" {
				require.NotNil(t, status.State.Waiting)
				assert.Equal(t, tc.waiting, status.State.Waiting.Reason)
			}
			if tc.exit != 0 {
				require.NotNil(t, status.State.Terminated)
				assert.Equal(t, tc.exit, status.State.Terminated.ExitCode)
			}
		})
	}
}

func TestStatusKeepsTransitionTimesAndConditionsOfOthers(t *testing.T) {
	long, now := metav1.NewTime(time.Unix(100, 0)), metav1.NewTime(time.Unix(200, 0))
	got := forgeStatus(podFacts{
		ip: "127.1.2.3", hostIP: "127.9.9.9", initialized: true, now: now, containers: []*containerState{running()},
		previous: corev1.PodStatus{QOSClass: corev1.PodQOSBurstable, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: long},
			{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: long},
			{Type: "example.com/mine", Status: corev1.ConditionTrue, LastTransitionTime: long},
		}},
	})
	times := map[corev1.PodConditionType]metav1.Time{}
	for _, c := range got.Conditions {
		assert.Equal(t, corev1.ConditionTrue, c.Status, c.Type)
		times[c.Type] = c.LastTransitionTime
	}
	assert.Equal(t, map[corev1.PodConditionType]metav1.Time{
		corev1.PodScheduled: long, corev1.PodInitialized: now, corev1.ContainersReady: now, corev1.PodReady: now, "example.com/mine": long,
	}, times)
	assert.Equal(t, corev1.PodQOSBurstable, got.QOSClass)
	assert.Equal(t, "127.1.2.3", got.PodIPs[0].IP)
	assert.Equal(t, "127.9.9.9", got.HostIPs[0].IP)
}

func TestAnUnsupportedPodSaysWhy(t *testing.T) {
	got := forgeStatus(podFacts{failure: errors.New("no volumes of the type of volume \"disk\""), containers: []*containerState{{}}})
	assert.Equal(t, reasonPodUnsupported, got.Reason)
	assert.Contains(t, got.Message, "disk")
}

func TestAContainerContinuesAfterARestartOfTheNode(t *testing.T) {
	container := &corev1.Container{Name: "c", Image: "i"}
	cases := map[string]struct {
		before   []corev1.ContainerStatus
		restarts int32
		exit     int32
	}{
		"it is new":              {nil, 0, 0},
		"another container":      {[]corev1.ContainerStatus{{Name: "d", RestartCount: 9}}, 0, 0},
		"its process is gone":    {[]corev1.ContainerStatus{{Name: "c", RestartCount: 2, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}, 3, exitKilled},
		"it had ended":           {[]corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 4}}}}, 1, 4},
		"it waited in crashloop": {[]corev1.ContainerStatus{{Name: "c", RestartCount: 5, LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 6}}}}, 5, 6},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			state := newState(container, tc.before)
			assert.Equal(t, tc.restarts, state.restarts)
			if tc.exit == 0 {
				assert.Nil(t, state.last)
				return
			}
			require.NotNil(t, state.last)
			assert.Equal(t, tc.exit, state.last.ExitCode)
		})
	}
}

func TestUnsupported(t *testing.T) {
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{}}}
	always := corev1.ContainerRestartPolicyAlways
	cases := map[string]struct {
		spec corev1.PodSpec
		want string
	}{
		"nothing special": {corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}, Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}}, ""},
		"a host path":     {corev1.PodSpec{Volumes: []corev1.Volume{{Name: "disk", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}}}}, `volume "disk"`},
		"an exec probe":   {corev1.PodSpec{Containers: []corev1.Container{{Name: "c", LivenessProbe: probe}}}, `container "c" has another liveness probe`},
		"a sidecar":       {corev1.PodSpec{InitContainers: []corev1.Container{{Name: "side", RestartPolicy: &always}}}, `"side"`},
		"a hook":          {corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Lifecycle: &corev1.Lifecycle{}}}}, "lifecycle"},
		"a gate":          {corev1.PodSpec{ReadinessGates: []corev1.PodReadinessGate{{}}}, "readinessGates"},
		"a device":        {corev1.PodSpec{Containers: []corev1.Container{{VolumeDevices: []corev1.VolumeDevice{{}}}}}, "volumeDevices"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := unsupported(&tc.spec)
			if tc.want == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, tc.want)
		})
	}
}
