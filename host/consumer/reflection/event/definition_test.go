package event

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

var now = time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)

func definition() *Definition {
	return New(Options{Origin: remote.Origin{HomeClusterID: "rome", ProviderClusterID: "milan", NodeName: "milan-node"}, Policy: offloadingv1beta1.DenyList})
}

// happened returns a remote event that happened some times, the last time a while ago.
func happened(count int32, ago time.Duration) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "shop-rome", Name: "web.1"},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "shop-rome", Name: "web"},
		Count:          count, LastTimestamp: metav1.NewTime(now.Add(-ago)),
	}
}

func podCreated(ago time.Duration) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", CreationTimestamp: metav1.NewTime(now.Add(-ago))}}
}

func input(event *corev1.Event, pod *corev1.Pod, memory any) engine.Input {
	in := engine.Input{
		Key:    engine.Key{Namespace: "shop", Name: "web.1"},
		Facts:  engine.Facts{HomeClusterID: "rome", ProviderClusterID: "milan", RemoteNamespace: "shop-rome", Now: now},
		Memory: memory,
		Related: []func(string) client.Object{func(name string) client.Object {
			if pod == nil || name != pod.Name {
				return nil
			}
			return pod
		}},
	}
	if event != nil {
		in.Remote = event
	}
	return in
}

// decide returns the actions of a decision, with those that its query answers.
func decide(t *testing.T, d engine.Definition, in engine.Input) []engine.Action {
	t.Helper()
	actions, err := d.Decide(in)
	require.NoError(t, err)
	query, isQuery := actions[0].(engine.Query)
	if !isQuery {
		return actions
	}
	require.Len(t, actions, 1)
	actions, err = query.Run(t.Context())
	require.NoError(t, err)
	return actions
}

func TestDecide(t *testing.T) {
	skipped := input(happened(1, 0), podCreated(time.Hour), nil)
	skipped.Skipped = true
	wrote := func(ago time.Duration, count int32) written {
		return written{at: now.Add(-ago), last: now.Add(-ago), count: count}
	}
	tests := map[string]struct {
		in   engine.Input
		want []engine.Action
	}{
		"a new event is copied":               {input(happened(1, 0), podCreated(time.Hour), nil), []engine.Action{engine.ApplyLocal{}, engine.Remember{}}},
		"a higher count is copied":            {input(happened(2, 0), podCreated(time.Hour), wrote(time.Minute, 1)), []engine.Action{engine.ApplyLocal{}, engine.Remember{}}},
		"a count that rises quickly waits":    {input(happened(9, 0), podCreated(time.Hour), wrote(time.Second, 1)), []engine.Action{engine.Requeue{}}},
		"a copied event is not written again": {input(happened(1, time.Minute), podCreated(time.Hour), wrote(time.Minute, 1)), []engine.Action{engine.Keep{}}},
		"an expired event":                    {input(nil, podCreated(time.Hour), wrote(time.Minute, 1)), []engine.Action{engine.Keep{}}},
		"an old event":                        {input(happened(1, time.Hour), podCreated(2*time.Hour), nil), []engine.Action{engine.Keep{}}},
		"an event of an earlier pod":          {input(happened(1, 5*time.Minute), podCreated(time.Second), nil), []engine.Action{engine.Keep{}}},
		"an event of a pod of another node":   {input(happened(1, 0), nil, nil), []engine.Action{engine.Keep{}}},
		"a provider with a late clock":        {input(happened(1, 30*time.Second), podCreated(0), nil), []engine.Action{engine.ApplyLocal{}, engine.Remember{}}},
		"a skipped event":                     {skipped, []engine.Action{engine.Keep{}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			actions := decide(t, definition(), tc.in)
			require.Len(t, actions, len(tc.want))
			for i := range tc.want {
				assert.IsType(t, tc.want[i], actions[i])
			}
		})
	}
}

// The steps of a pod that starts are copied once each, after all other events, and left out first.
func TestStepsOfAPod(t *testing.T) {
	step := func(reason string, count int32, ago time.Duration) *corev1.Event {
		event := happened(count, ago)
		event.Type, event.Reason = corev1.EventTypeNormal, reason
		return event
	}
	isBackground := definition().Resource().Remote.IsBackground
	for _, reason := range []string{"Scheduled", "Pulling", "Pulled", "Created", "Started"} {
		assert.True(t, isBackground(step(reason, 1, 0)), reason)
		assert.IsType(t, engine.ApplyLocal{}, decide(t, definition(), input(step(reason, 1, time.Minute), podCreated(time.Hour), nil))[0], reason)
		assert.IsType(t, engine.Keep{}, decide(t, definition(), input(step(reason, 2, 0), podCreated(time.Hour), written{at: now.Add(-time.Hour), count: 1}))[0], "a restart of its container")
		assert.IsType(t, engine.Keep{}, decide(t, definition(), input(step(reason, 1, 3*time.Minute), podCreated(time.Hour), nil))[0], "after a restart of the virtual kubelet")
	}
	warning, ofJob := step("Created", 1, 0), step("Created", 1, 0)
	warning.Type, ofJob.InvolvedObject.Kind = corev1.EventTypeWarning, "Job"
	for _, event := range []*corev1.Event{warning, ofJob, step("Killing", 1, 0), step("BackOff", 1, 0)} {
		assert.False(t, isBackground(event), event.Reason)
	}
	for name, each := range map[string]func(n int) string{"of one pod": func(int) string { return "web" }, "of many pods": func(n int) string { return fmt.Sprint("web-", n) }} {
		t.Run(name, func(t *testing.T) {
			d, copied, warned := definition(), 0, 0
			copyAll := func(reason, kind string) (written int) {
				for n := range 2 * providerBurst {
					event, pod := step(reason, 1, 0), podCreated(time.Hour)
					event.Type, event.Name = kind, fmt.Sprint(reason, n)
					pod.Name, pod.UID = each(n), types.UID(each(n))
					event.InvolvedObject.Name = pod.Name
					if _, ok := decide(t, d, input(event, pod, nil))[0].(engine.ApplyLocal); ok {
						written++
					}
				}
				return written
			}
			copied, warned = copyAll("Started", corev1.EventTypeNormal), copyAll("Failed", corev1.EventTypeWarning)
			assert.Greater(t, copied, 10, "as many as a pod with two containers has")
			assert.Greater(t, warned, 10, "they leave room for warnings")
		})
	}
}

// Both definitions read the same events, so that a namespace is listed and watched once.
func TestEventsAreReadOnce(t *testing.T) {
	ofPods, ofObjects := definition().Resource(), NewForObjects(definition().options, "service").Resource()
	assert.NotEmpty(t, ofPods.Remote.TrimName)
	assert.Equal(t, ofPods.Remote.TrimName, ofObjects.Remote.TrimName)
}

// Warnings about other objects than pods come back too; what is normal helps no one.
func TestEventsOfOtherObjects(t *testing.T) {
	options := Options{Origin: remote.Origin{HomeClusterID: "rome", ProviderClusterID: "milan", NodeName: "milan-node"}, Policy: offloadingv1beta1.DenyList}
	assert.Nil(t, NewForObjects(options, "pod", "configmap", "secret"), "no controller of a provider warns about these")
	d := NewForObjects(options, "ingress", "service", "persistentvolumeclaim", "configmap", "endpointslice")
	resource := d.Resource()
	assert.True(t, resource.LeaderOnly, "the objects belong to no single virtual node")
	require.Len(t, resource.Related, 4)

	created := metav1.NewTime(now.Add(-time.Hour))
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid-1", CreationTimestamp: created}
	locals := []client.Object{&corev1.PersistentVolumeClaim{ObjectMeta: meta}, &corev1.Service{ObjectMeta: meta}, &networkingv1.Ingress{ObjectMeta: meta}, &discoveryv1.EndpointSlice{ObjectMeta: meta}}
	for name, tc := range map[string]struct {
		apiVersion, kind, object, want string
	}{
		"a refused ShadowEndpointSlice":           {"offloading.liqo.io/v1beta1", "ShadowEndpointSlice", "web", "discovery.k8s.io/v1"},
		"an EndpointSlice of the provider":        {"discovery.k8s.io/v1", "EndpointSlice", "web", ""},
		"a claim that is not provisioned":         {"v1", "PersistentVolumeClaim", "web", "v1"},
		"a load balancer that is not created":     {"v1", "Service", "web", "v1"},
		"a rejected Ingress":                      {"networking.k8s.io/v1", "Ingress", "web", "networking.k8s.io/v1"},
		"an Ingress of an older version":          {"networking.k8s.io/v1beta1", "Ingress", "web", "networking.k8s.io/v1"},
		"an event without version":                {"", "Service", "web", "v1"},
		"a kind of the same name":                 {"serving.knative.dev/v1", "Service", "web", ""},
		"an object that is not in the consumer":   {"v1", "Service", "other", ""},
		"a kind that is not reflected":            {"apps/v1", "Deployment", "web", ""},
		"a ShadowPod, whose status has the cause": {"offloading.liqo.io/v1beta1", "ShadowPod", "web", ""},
	} {
		t.Run(name, func(t *testing.T) {
			event := happened(1, 0)
			event.Type, event.Reason = corev1.EventTypeWarning, "ProvisioningFailed"
			event.InvolvedObject = corev1.ObjectReference{APIVersion: tc.apiVersion, Kind: tc.kind, Namespace: "shop-rome", Name: tc.object}
			in := input(event, nil, nil)
			in.Related = nil
			for _, object := range locals {
				in.Related = append(in.Related, func(name string) client.Object {
					if name != object.GetName() {
						return nil
					}
					return object
				})
			}
			actions := decide(t, d, in)
			if tc.want == "" {
				assert.IsType(t, engine.Keep{}, actions[0])
				return
			}
			require.IsType(t, engine.ApplyLocal{}, actions[0])
			body, err := json.Marshal(actions[0].(engine.ApplyLocal).Config)
			require.NoError(t, err)
			got := &corev1.Event{}
			require.NoError(t, json.Unmarshal(body, got))
			assert.Equal(t, corev1.ObjectReference{APIVersion: tc.want, Kind: strings.TrimPrefix(tc.kind, "Shadow"), Namespace: "shop", Name: "web", UID: "uid-1"}, got.InvolvedObject)
		})
	}
}

func TestNormalEventsOfOtherObjectsAreNotCopied(t *testing.T) {
	d := NewForObjects(definition().options, "service")
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid-1", CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}}
	event := happened(1, 0)
	event.InvolvedObject = corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: "shop-rome", Name: "web"}
	in := input(event, nil, nil)
	in.Related = []func(string) client.Object{func(string) client.Object { return service }}
	event.Type = corev1.EventTypeWarning
	assert.IsType(t, engine.ApplyLocal{}, decide(t, d, in)[0])
	event.Type = corev1.EventTypeNormal
	assert.IsType(t, engine.Keep{}, decide(t, d, in)[0])
}

func TestAnUpdateIsSentWhenTheIntervalEnds(t *testing.T) {
	in := input(happened(9, 0), podCreated(time.Hour), written{at: now.Add(-10 * time.Second), count: 1})
	actions := decide(t, definition(), in)
	assert.Equal(t, 20*time.Second, actions[0].(engine.Requeue).After)
	in.Facts.Now = now.Add(20 * time.Second)
	actions = decide(t, definition(), in)
	require.IsType(t, engine.ApplyLocal{}, actions[0])
	assert.Equal(t, written{at: in.Facts.Now, last: now, count: 9}, actions[1].(engine.Remember).Value)
}
