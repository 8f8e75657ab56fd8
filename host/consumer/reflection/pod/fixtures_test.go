package pod

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/sdk/contract"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// policies is an evaluator that calls a function and counts the calls.
type policies struct {
	answer func(in chain.Input) (*chain.Result, error)
	calls  int
}

func (p *policies) Evaluate(_ context.Context, in chain.Input) (*chain.Result, error) {
	p.calls++
	if p.answer != nil {
		return p.answer(in)
	}
	return &chain.Result{Object: in.Object}, nil
}

func definition(p *policies) *Definition {
	return New(Options{
		Origin:    origin(),
		Evaluator: p,
		VirtualNode: func() (*offloadingv1beta1.OffloadingPatch, contract.VirtualNode) {
			return nil, contract.VirtualNode{Name: "milan-node", ProviderClusterID: "milan", ConsumerClusterID: "rome"}
		},
	})
}

type podOption func(*corev1.Pod)

func phase(p corev1.PodPhase, reason ...string) podOption {
	return func(pod *corev1.Pod) {
		pod.Status.Phase = p
		pod.Status.Reason = strings.Join(reason, "")
	}
}

func ofDaemonSet(pod *corev1.Pod) {
	controls := true
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: "agent-1", Controller: &controls}}
}

func deleting(pod *corev1.Pod) {
	at := metav1.NewTime(now)
	pod.DeletionTimestamp = &at
}

func ready(pod *corev1.Pod) {
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
}

func label(key, value string) podOption {
	return func(pod *corev1.Pod) { pod.Labels[key] = value }
}

func annotation(key, value string) podOption {
	return func(pod *corev1.Pod) { pod.Annotations[key] = value }
}

func container(name string, restarts int32) podOption {
	return func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: name, RestartCount: restarts, Ready: true})
	}
}

func controlledBy(version, kind string) podOption {
	return func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: "web", Controller: ptr.To(true)}}
	}
}

func uid(id types.UID) podOption { return func(pod *corev1.Pod) { pod.UID = id } }

// localPod is a pod bound to the virtual node and marked as offloaded.
func localPod(options ...podOption) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web", UID: "local-1",
			Labels:      map[string]string{"app": "web", offloadingv1beta1.LocalPodLabel: "true"},
			Annotations: map[string]string{},
		},
		Spec:   corev1.PodSpec{NodeName: "milan-node", Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	for _, option := range options {
		option(pod)
	}
	return pod
}

func remoteMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "shop-rome", Name: "web", UID: "remote-1",
		Labels: map[string]string{
			"app":                              "web",
			offloadingv1beta1.OriginLabel:      "rome",
			offloadingv1beta1.DestinationLabel: "milan",
			offloadingv1beta1.NodeNameLabel:    "milan-node",
		},
		Annotations: map[string]string{remote.LocalPodUIDAnnotation: "local-1"},
	}
}

func remotePod(options ...podOption) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: remoteMeta(), Status: corev1.PodStatus{Phase: corev1.PodPending}}
	for _, option := range options {
		option(pod)
	}
	return pod
}

type shadowOption func(*offloadingv1beta1.ShadowPod)

func shadowPod(options ...shadowOption) *offloadingv1beta1.ShadowPod {
	shadow := &offloadingv1beta1.ShadowPod{ObjectMeta: remoteMeta()}
	shadow.UID = "shadow-1"
	for _, option := range options {
		option(shadow)
	}
	return shadow
}

func shadowDeleting(s *offloadingv1beta1.ShadowPod) {
	at := metav1.NewTime(now)
	s.DeletionTimestamp = &at
}

func created(at time.Time) shadowOption {
	return func(s *offloadingv1beta1.ShadowPod) { s.CreationTimestamp = metav1.NewTime(at) }
}

func shadowPhase(p corev1.PodPhase) shadowOption {
	return func(s *offloadingv1beta1.ShadowPod) { s.Status.Phase = p }
}

func shadowLabel(key, value string) shadowOption {
	return func(s *offloadingv1beta1.ShadowPod) {
		if value == "" {
			delete(s.Labels, key)
			return
		}
		s.Labels[key] = value
	}
}

func shadowAnnotation(key, value string) shadowOption {
	return func(s *offloadingv1beta1.ShadowPod) { s.Annotations[key] = value }
}

func input(local *corev1.Pod, shadow *offloadingv1beta1.ShadowPod, pod *corev1.Pod) engine.Input {
	in := engine.Input{
		Key: engine.Key{Namespace: "shop", Name: "web"},
		Facts: engine.Facts{
			HomeClusterID: "rome", ProviderClusterID: "milan", NodeName: "milan-node", NodeIP: "10.9.9.9",
			RemoteNamespace: "shop-rome", Now: now,
		},
	}
	// A nil pointer in an interface is not nil.
	if local != nil {
		in.Local = local
	}
	if shadow != nil {
		in.Remote = shadow
	}
	if pod != nil {
		in.Dependent = pod
	}
	return in
}

// decide returns the actions of a decision and those that follow from its queries.
func decide(ctx context.Context, d *Definition, in engine.Input) ([]engine.Action, error) {
	actions, err := d.Decide(in)
	var all []engine.Action
	for _, action := range actions {
		query, ok := action.(engine.Query)
		if !ok {
			all = append(all, action)
			continue
		}
		answer, queryErr := query.Run(ctx)
		all, err = append(all, answer...), errors.Join(err, queryErr)
	}
	return all, err
}

// summary lists actions: their kind and their reason, period or keys. What is stored for the
// next decision is left out.
func summary(actions []engine.Action) string {
	var out []string
	for _, action := range actions {
		switch a := action.(type) {
		case engine.DecideFirst:
			out = append(out, "first "+a.Resource)
		case engine.Create:
			out = append(out, "create")
		case engine.PatchLocal:
			out = append(out, "label")
		case engine.PatchRemoteSpec:
			out = append(out, fmt.Sprintf("spec %s=%v", a.Operations[0].Path, a.Operations[0].Value))
		case engine.PatchRemote:
			out = append(out, "patch"+changes(a.Labels)+changes(a.Annotations))
		case engine.DeleteRemote:
			out = append(out, "delete ShadowPod")
		case engine.DeleteDependent:
			out = append(out, fmt.Sprintf("delete pod within %ds", a.GracePeriodSeconds))
		case engine.DeleteLocal:
			out = append(out, "delete local pod")
		case engine.PatchLocalStatus:
			status := a.New.(*corev1.PodStatus)
			with := ""
			if len(a.Labels) > 0 {
				with = " with label"
			}
			out = append(out, strings.TrimSpace(fmt.Sprintf("status %s %s", status.Phase, status.Reason))+with)
		case engine.RecordEvent:
			out = append(out, "event "+a.Reason)
		case engine.Requeue:
			out = append(out, "wait "+a.Reason)
		case engine.Keep:
			out = append(out, "keep "+a.Reason)
		case engine.RefreshRemote:
			out = append(out, "refresh")
		}
	}
	return strings.Join(out, ", ")
}

// remember returns the input with what the actions store for the next decision.
func remember(in engine.Input, actions []engine.Action) engine.Input {
	for _, action := range actions {
		switch a := action.(type) {
		case engine.Remember:
			in.Memory = a.Value
		case engine.PatchRemoteSpec:
			in = remember(in, a.Accepted)
		}
	}
	return in
}

// patchedStatus returns the status that the actions write; nil for none.
func patchedStatus(actions []engine.Action) *corev1.PodStatus {
	for _, action := range actions {
		if patch, ok := action.(engine.PatchLocalStatus); ok {
			return patch.New.(*corev1.PodStatus)
		}
	}
	return nil
}

// patchedShadowPod returns a ShadowPod after the patches among the actions.
func patchedShadowPod(shadow *offloadingv1beta1.ShadowPod, actions []engine.Action) *offloadingv1beta1.ShadowPod {
	next := shadow.DeepCopy()
	for _, action := range actions {
		patch, ok := action.(engine.PatchRemote)
		if !ok {
			continue
		}
		for current, changes := range map[*map[string]string]map[string]*string{&next.Labels: patch.Labels, &next.Annotations: patch.Annotations} {
			for key, value := range changes {
				if value == nil {
					delete(*current, key)
					continue
				}
				(*current)[key] = *value
			}
		}
	}
	return next
}

func changes(patch map[string]*string) string {
	var out []string
	for key, value := range patch {
		if value == nil {
			out = append(out, " -"+key)
			continue
		}
		out = append(out, " +"+key)
	}
	sort.Strings(out)
	return strings.Join(out, "")
}

func origin() remote.Origin {
	return remote.Origin{HomeClusterID: "rome", ProviderClusterID: "milan", NodeName: "milan-node"}
}
