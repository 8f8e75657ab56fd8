package planner_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/pod"
	"github.com/longshore-dev/longshore/host/planner"
)

// creating is a pod whose container is being created on a virtual node, as the user of the consumer
// sees it, and the objects of its namespace.
func creating(o *planner.Observed) {
	sent(o)
	o.Provider, o.ShadowPod, o.RemotePod = false, nil, nil
	o.Pod.Status.ContainerStatuses = waiting("ContainerCreating", "")
	o.Facts = shop()
}

func usesSecret(p *corev1.Pod, name string) {
	p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}}}}
}

func usesConfigMap(p *corev1.Pod, name string) {
	p.Spec.Containers = []corev1.Container{{Name: "web", EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}}}}
}

// warning is an event about an object, some minutes after the pod was created.
func warning(kind, name, reason, message string, minutes int) corev1.Event {
	at := metav1.NewTime(time.Date(2026, 1, 1, 12, minutes, 0, 0, time.UTC))
	return corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: kind, Name: name}, Type: corev1.EventTypeWarning, Reason: reason, Message: message, LastTimestamp: at, Count: 7}
}

func TestAPodWaitsForAnObject(t *testing.T) {
	checkDiagnoses(t, map[string]diagnosed{
		"a Secret is missing": {func(o *planner.Observed) { creating(o); usesSecret(o.Pod, "none") }, planner.Running, planner.ReasonMissingObject, planner.Owner, `Secret "none" is missing in namespace "shop"`},
		"the same, and the kubelet names it": {func(o *planner.Observed) {
			creating(o)
			usesConfigMap(o.Pod, "none")
			o.Pod.Status.ContainerStatuses = waiting("CreateContainerConfigError", `configmap "none" not found`)
		}, planner.Running, planner.ReasonMissingObject, planner.Owner, `ConfigMap "none" is missing in namespace "shop"`},
		"no container has a status": {func(o *planner.Observed) {
			creating(o)
			usesSecret(o.Pod, "none")
			o.Pod.Status.ContainerStatuses = nil
		}, planner.Running, planner.ReasonMissingObject, planner.Owner, `Secret "none" is missing`},
		"a ConfigMap is annotated": {func(o *planner.Observed) { creating(o); usesConfigMap(o.Pod, "private") }, planner.Running, planner.ReasonObjectNotReflected, planner.Owner, "annotation liqo.io/skip-reflection"},
		"Secrets are not reflected": {func(o *planner.Observed) {
			creating(o)
			usesSecret(o.Pod, "password")
			o.Facts.Inventory.Add("Secret", metav1.ObjectMeta{Namespace: "shop", Name: "password"})
			withArguments(&o.Facts, "--secret-reflection-workers=0")
		}, planner.Running, planner.ReasonObjectNotReflected, planner.Operator, `reflects no secret (--secret-reflection-workers=0)`},
		"a policy of the node": {func(o *planner.Observed) {
			creating(o)
			usesConfigMap(o.Pod, "settings")
			withArguments(&o.Facts, "--configmap-reflection-type=AllowList")
		}, planner.Running, planner.ReasonObjectNotReflected, planner.Owner, "needs the annotation liqo.io/allow-reflection"},
		"the volume of a claim is here": {func(o *planner.Observed) { creating(o); claim("here")(o.Pod) }, planner.Running, planner.ReasonObjectNotReflected, planner.Owner, "its volume is in this cluster"},
		"a Secret that may not be read": {func(o *planner.Observed) {
			creating(o)
			usesSecret(o.Pod, "x")
			o.Facts.Inventory.AddUnreadable("Secret", "shop", "x")
		}, planner.Running, planner.ReasonNotReady, planner.Operator, "neither its status nor its events name a cause"},
		"a pod on a node of this cluster": {func(o *planner.Observed) { creating(o); o.Node.Labels = nil; usesConfigMap(o.Pod, "private") }, planner.Running, planner.ReasonNotReady, planner.Owner, "neither cluster reports a cause"},
		"a ConfigMap is not in the provider": {func(o *planner.Observed) {
			sent(o)
			o.Facts = shop()
			usesConfigMap(o.Pod, "settings")
			o.ShadowPod.Spec.Pod = o.Pod.Spec
			o.Absent = []planner.Reference{{Kind: "ConfigMap", Name: "settings"}}
			o.Events = []corev1.Event{warning("ConfigMap", "settings", "FailedReflection", "quota of ConfigMaps", 1)}
		}, planner.Running, planner.ReasonObjectNotReflected, planner.Operator, `ConfigMap "settings" is not in the provider, although it follows the pod. Warning FailedReflection (7 times, last at 2026-01-01 12:01:00): quota of ConfigMaps`},
		"a ConfigMap cannot be reflected, seen from here": {func(o *planner.Observed) {
			creating(o)
			usesConfigMap(o.Pod, "settings")
			o.Pod.Status.ContainerStatuses = waiting("CreateContainerConfigError", `configmap "settings" not found`)
			o.Events = []corev1.Event{warning("ConfigMap", "settings", "FailedReflection", "exceeded quota", 1)}
		}, planner.Running, planner.ReasonObjectNotReflected, planner.Operator, `ConfigMap "settings" does not reach the provider. Warning FailedReflection (7 times, last at 2026-01-01 12:01:00): exceeded quota`},
		"the kubelet of the provider is silent": {func(o *planner.Observed) {
			sent(o)
			o.RemotePod.Spec.NodeName = "worker-1"
		}, planner.Running, planner.ReasonNotStarted, planner.ProviderOperator, `The remote pod is on node "worker-1" of the provider`},
		"it runs, and the object is gone since": {func(o *planner.Observed) {
			creating(o)
			usesSecret(o.Pod, "none")
			o.Pod.Status.ContainerStatuses = waiting("CrashLoopBackOff", "back-off")
		}, planner.Running, "CrashLoopBackOff", planner.Owner, `Container "web" waits: back-off`},
		"the Secret for its image is missing": {func(o *planner.Observed) {
			creating(o)
			o.Pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
			o.Pod.Status.ContainerStatuses = waiting("ImagePullBackOff", "unauthorized")
		}, planner.Running, "ImagePullBackOff", planner.Owner, `Container "web" waits: unauthorized. Its imagePullSecret "registry" is not used: it does not exist.`},
		"the virtual kubelet runs no pods": {func(o *planner.Observed) { creating(o); withArguments(&o.Facts, "--pod-reflection-workers=0") }, planner.Forging, planner.ReasonPodsNotReflected, planner.Operator, "runs no pods"},
	})
}

// notReady is a pod that runs and is not ready.
func notReady(reason, message string) func(*planner.Observed) {
	return func(o *planner.Observed) {
		sent(o)
		o.Pod.Status.Phase = corev1.PodRunning
		o.Pod.Status.Conditions = conditions(corev1.PodReady, corev1.ConditionFalse, reason, message)
		o.Pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	}
}

func TestWhyAPodThatRunsIsNotReady(t *testing.T) {
	gate := func(o *planner.Observed) {
		notReady("ReadinessGatesNotReady", "gate")(o)
		o.Pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/lb"}}
	}
	unready := func(o *planner.Observed) {
		notReady("ContainersNotReady", "containers with unready status: [web]")(o)
		o.Pod.Status.ContainerStatuses[0].Ready = false
	}
	checkDiagnoses(t, map[string]diagnosed{
		"a gate without a condition": {gate, planner.Running, planner.ReasonReadinessGate, planner.Owner, `the readiness gate "example.com/lb" is not: its controller has not set the condition`},
		"a gate that is false": {func(o *planner.Observed) {
			gate(o)
			o.Pod.Status.Conditions = append(o.Pod.Status.Conditions, conditions("example.com/lb", corev1.ConditionFalse, "NoTarget", "no target")...)
		}, planner.Running, planner.ReasonReadinessGate, planner.Owner, "its controller has set it to False. NoTarget no target"},
		"a probe": {unready, planner.Running, planner.ReasonContainersNotReady, planner.Owner, `Container "web" runs and is not ready: its readiness probe`},
		"a probe, with its answer": {func(o *planner.Observed) {
			unready(o)
			o.Events = []corev1.Event{warning("Pod", "web", "Unhealthy", "HTTP probe failed with statuscode: 503", 2), warning("Pod", "web", "FailedMount", "old", 1)}
		}, planner.Running, planner.ReasonContainersNotReady, planner.Owner, "HTTP probe failed with statuscode: 503"},
		"a startup probe": {func(o *planner.Observed) {
			unready(o)
			o.Pod.Status.ContainerStatuses[0].Started = new(bool)
		}, planner.Running, planner.ReasonContainersNotReady, planner.Owner, "its startup probe"},
		"the provider is not reachable": {notReady("RemoteUnavailable", "The cluster that runs the pod is not reachable"), planner.VirtualNode, "RemoteUnavailable", planner.Operator, "is not reachable"},
		"the status is not written": {func(o *planner.Observed) {
			notReady("", "")(o)
			o.RemotePod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: conditions(corev1.PodReady, corev1.ConditionTrue, "", "")}
		}, planner.Running, planner.ReasonNotReported, planner.Operator, "The remote pod is ready"},
		"another reason": {notReady("Other", ""), planner.Running, "Other", planner.ProviderOperator, "Other"},
		"its remote pod was deleted": {func(o *planner.Observed) {
			unready(o)
			o.Pod.Status.Conditions[0].Reason = "RemotePodReplaced"
		}, planner.Creating, "RemotePodReplaced", planner.ProviderOperator, "The provider has deleted the remote pod"},
		"its remote pod is being deleted": {func(o *planner.Observed) {
			unready(o)
			o.Pod.Status.Conditions[0].Reason = "RemotePodReplaced"
			o.RemotePod.DeletionTimestamp, o.RemotePod.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Date(2026, 3, 1, 12, 0, 30, 0, time.UTC)}, ptr.To[int64](30)
			o.RemotePod.Finalizers = []string{"example.com/backup"}
			o.RemotePod.Status = corev1.PodStatus{Phase: corev1.PodFailed}
		}, planner.Creating, "RemotePodReplaced", planner.ProviderOperator, "deletes the remote pod since 2026-03-01 12:00:00, and creates another one once it is gone. The provider keeps pod "},
		"a container that crashes": {func(o *planner.Observed) {
			unready(o)
			o.RemotePod = nil
			o.Provider = false
			o.Pod.Status.ContainerStatuses = waiting("CrashLoopBackOff", "back-off 5m0s")
			o.Pod.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}
		}, planner.Running, "CrashLoopBackOff", planner.Owner, "back-off 5m0s. It ended with exit code 137 (OOMKilled) before."},
	})
}

func TestTheNewestWarningIsTheLastResort(t *testing.T) {
	checkDiagnoses(t, map[string]diagnosed{
		"a mount fails": {func(o *planner.Observed) {
			creating(o)
			o.Events = []corev1.Event{warning("Pod", "web", "FailedMount", "older", 1), warning("Pod", "web", "FailedMount", "attach timed out", 3), warning("ConfigMap", "web", "FailedReflection", "other", 4)}
		}, planner.Running, "FailedMount", planner.ProviderOperator, "Warning FailedMount (7 times, last at 2026-01-01 12:03:00): attach timed out"},
		"of an earlier pod": {func(o *planner.Observed) {
			creating(o)
			o.Pod.UID = "2"
			o.Events = []corev1.Event{warning("Pod", "web", "FailedMount", "older", 1)}
		}, planner.Running, planner.ReasonNotReady, planner.Operator, "neither its status nor its events name a cause"},
		"a step": {func(o *planner.Observed) {
			creating(o)
			o.Events = []corev1.Event{warning("Pod", "web", "Pulling", "image", 1)}
			o.Events[0].Type = corev1.EventTypeNormal
		}, planner.Running, planner.ReasonNotReady, planner.Operator, "neither its status nor its events name a cause"},
		"the pod was not sent": {func(o *planner.Observed) {
			sent(o)
			o.ShadowPod, o.RemotePod = nil, nil
			o.Events = []corev1.Event{warning("Pod", "web", "FailedReflection", "the operator of that cluster must let it", 1)}
		}, planner.Forging, "FailedReflection", planner.Operator, "the operator of that cluster must let it"},
		"the node is down, and the pod is deleted": {func(o *planner.Observed) {
			sent(o)
			o.Pod.DeletionTimestamp = &metav1.Time{}
			o.Node.Status.Conditions[0].Status = corev1.ConditionFalse
		}, planner.VirtualNode, planner.ReasonNodeNotReady, planner.Operator, "it stays until its node is ready or gone"},
		"a finalizer": {func(o *planner.Observed) {
			sent(o)
			o.Pod.DeletionTimestamp, o.Pod.Finalizers = &metav1.Time{}, []string{"example.com/lb"}
		}, planner.Running, planner.ReasonDeleting, planner.Owner, "example.com/lb"},
		"a finalizer in the provider": {func(o *planner.Observed) {
			sent(o)
			o.Pod.DeletionTimestamp = &metav1.Time{}
			o.ShadowPod.DeletionTimestamp, o.ShadowPod.Finalizers = &metav1.Time{}, []string{"example.com/keep"}
		}, planner.Running, pod.ReasonRemoteFinalizers, planner.ProviderOperator, "with the finalizers example.com/keep"},
		"a finalizer in a provider that is not read": {func(o *planner.Observed) {
			sent(o)
			o.Pod.DeletionTimestamp = &metav1.Time{}
			o.Events = []corev1.Event{warning("Pod", "web", pod.ReasonRemoteFinalizers, "The pod stays until", 1)}
		}, planner.Running, pod.ReasonRemoteFinalizers, planner.ProviderOperator, "The pod stays until"},
	})
}

func TestWhoCanCorrectTheScheduling(t *testing.T) {
	pending := func(change func(*planner.Observed)) func(*planner.Observed) {
		return func(o *planner.Observed) {
			o.Pod = web()
			o.Pod.Spec.Tolerations = []corev1.Toleration{{Key: offloadingv1beta1.VirtualNodeTaintKey, Operator: corev1.TolerationOpExists}}
			o.Pod.Status.Conditions = conditions(corev1.PodScheduled, corev1.ConditionFalse, "Unschedulable", "0/3 nodes are available")
			o.Offloading, o.Facts = offloading(offloadingv1beta1.RemotePodOffloadingStrategyType), shop()
			change(o)
		}
	}
	old, recent := metav1.NewTime(time.Unix(1, 0)), metav1.NewTime(time.Unix(60, 0))
	checkDiagnoses(t, map[string]diagnosed{
		"the virtual nodes have no cpu left": {pending(func(o *planner.Observed) { requests("cpu", "5")(o.Pod) }), planner.Scheduling, "Unschedulable", planner.Operator,
			"No virtual node takes the pod: milan: insufficient cpu: 5 requested, 4 left; turin: insufficient cpu: 5 requested, 4 left. A larger ResourceSlice, or spec.resourceQuota of the VirtualNode, gives it room. The scheduler says: 0/3 nodes are available"},
		"pods that fit no node of the provider hold the capacity": {pending(func(o *planner.Observed) {
			requests("cpu", "5")(o.Pod)
			o.Facts.Held = map[string][]string{"milan": {"shop/a", "shop/b", "shop/c", "shop/d"}}
		}), planner.Scheduling, "Unschedulable", planner.Operator, "milan: insufficient cpu: 5 requested, 4 left (pods that no node of the provider takes hold a part: shop/a, shop/b, shop/c and 1 more); turin"},
		"a node that is overused": {pending(func(o *planner.Observed) {
			requests("cpu", "5")(o.Pod)
			used(&o.Facts, "cpu", "60")
		}), planner.Scheduling, "Unschedulable", planner.Operator, "insufficient cpu: 5 requested, and the pods on the node request 56 more than it has"},
		"the closest node comes first": {pending(func(o *planner.Observed) {
			requests("cpu", "5")(o.Pod)
			o.Facts.VirtualNodes[1].Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
		}), planner.Scheduling, "Unschedulable", planner.Operator, "turin: insufficient cpu: 5 requested, 4 left; milan: taint gpu:NoSchedule is not tolerated"},
		"a node selector": {pending(func(o *planner.Observed) { o.Pod.Spec.NodeSelector = map[string]string{"disk": "ssd"} }), planner.Scheduling, "Unschedulable", planner.Owner, "its labels do not match the pod's"},
		"it is older than the offloading": {pending(func(o *planner.Observed) {
			o.Pod.Spec.Tolerations = nil
			o.Pod.CreationTimestamp, o.Offloading.CreationTimestamp = old, recent
		}), planner.Scheduling, offloadingv1beta1.CreatedBeforeOffloadingReason, planner.Owner, "was created before its namespace was offloaded"},
		"it is as old as the offloading": {pending(func(o *planner.Observed) {
			o.Pod.Spec.Tolerations = nil
			o.Pod.CreationTimestamp, o.Offloading.CreationTimestamp = recent, recent
		}), planner.Scheduling, offloadingv1beta1.CreatedBeforeOffloadingReason, planner.Owner, "Create it again: kubectl delete pod -n shop web. Then create pods without a controller again."},
		"the label came later than the offloading": {pending(func(o *planner.Observed) {
			o.Pod.Spec.Tolerations = nil
			o.Pod.CreationTimestamp, o.Offloading.CreationTimestamp = recent, old
			o.Namespace = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{
				Time: &recent, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:liqo.io/scheduling-enabled":{}}}}`),
			}}}}
		}), planner.Scheduling, offloadingv1beta1.CreatedBeforeOffloadingReason, planner.Owner, "was created before its namespace was offloaded"},
		"it runs at home": {pending(func(o *planner.Observed) {
			o.Pod.Spec.Tolerations, o.Pod.Spec.NodeName, o.Node = nil, "worker", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}
			o.Pod.Status.Phase, o.Pod.Status.Conditions = corev1.PodRunning, conditions(corev1.PodReady, corev1.ConditionTrue, "", "")
		}), planner.Scheduling, offloadingv1beta1.CreatedBeforeOffloadingReason, planner.Owner, `so it is on node "worker" although the strategy is Remote. Create it again`},
		"it runs in the provider, and the strategy is Local now": {pending(func(o *planner.Observed) {
			sent(o)
			o.Offloading.Spec.PodOffloadingStrategy = offloadingv1beta1.LocalPodOffloadingStrategyType
			o.Pod.Status.Phase, o.Pod.Status.Conditions = corev1.PodRunning, conditions(corev1.PodReady, corev1.ConditionTrue, "", "")
		}), planner.Scheduling, offloadingv1beta1.StrategyChangedReason, planner.Owner, `so it is on node "milan" although the strategy is Local. Create it again`},
		"the webhook did not see it": {pending(func(o *planner.Observed) {
			o.Pod.Spec.Tolerations = nil
			o.Pod.CreationTimestamp, o.Offloading.CreationTimestamp = recent, old
		}), planner.Scheduling, planner.ReasonNotPlaced, planner.Operator, "the pod webhook did not add the toleration"},
		"there is no virtual node": {pending(func(o *planner.Observed) { o.Facts.VirtualNodes = []offloadingv1beta1.VirtualNode{} }), planner.Scheduling, planner.ReasonNoVirtualNode, planner.Operator, "there is no virtual node. The operator must peer"},
		"the virtual nodes are down": {pending(func(o *planner.Observed) {
			o.Facts.VirtualNodes = o.Facts.VirtualNodes[:1]
			o.Facts.Nodes = map[string]*corev1.Node{"turin": {
				ObjectMeta: metav1.ObjectMeta{Name: "turin"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule}}},
				Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Message: "Kubelet stopped posting node status."}}},
			}}
		}), planner.Scheduling, "Unschedulable", planner.Operator, "turin: the node is not ready: Kubelet stopped posting node status."},
		"the selector excludes them": {pending(func(o *planner.Observed) {
			o.Pod.Spec.NodeSelector = map[string]string{"region": "eu"}
			o.Offloading.Spec.ClusterSelector.NodeSelectorTerms = []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "region", Operator: corev1.NodeSelectorOpIn, Values: []string{"eu"}}}}}
		}), planner.Scheduling, "Unschedulable", planner.Operator, "do not match the clusterSelector"},
		"the strategy is Local":   {pending(func(o *planner.Observed) { o.Offloading.Spec.PodOffloadingStrategy = "Local" }), planner.Scheduling, planner.ReasonStrategyLocal, planner.Operator, "strategy Local"},
		"a claim in this cluster": {pending(claimed("here")), planner.Scheduling, planner.ReasonObjectNotReflected, planner.Owner, `Claim "here" keeps the pod off virtual nodes: its volume is in this cluster. The scheduler says`},
		"an ephemeral volume": {pending(func(o *planner.Observed) {
			o.Pod.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}}
			disk := "disk"
			o.Facts.Inventory.AddClaim(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-scratch"}, Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &disk}})
		}), planner.Scheduling, planner.ReasonObjectNotReflected, planner.Owner, `Claim "web-scratch" keeps the pod off virtual nodes: its storage class "disk" has volumes in this cluster only`},
		"affinity to other pods":       {pending(func(*planner.Observed) {}), planner.Scheduling, "Unschedulable", planner.Owner, "0/3 nodes are available"},
		"the nodes may not be read":    {pending(func(o *planner.Observed) { o.Facts = planner.Facts{}; requests("cpu", "5")(o.Pod) }), planner.Scheduling, "Unschedulable", planner.Owner, "0/3 nodes are available"},
		"many nodes, of which 3 named": {pending(func(o *planner.Observed) { requests("cpu", "5")(o.Pod); addNodes(&o.Facts, "a", "b", "c", "d") }), planner.Scheduling, "Unschedulable", planner.Operator, "; and 3 more virtual nodes"},
	})
}

func claimed(name string) func(*planner.Observed) {
	return func(o *planner.Observed) { claim(name)(o.Pod) }
}

func addNodes(f *planner.Facts, names ...string) {
	for _, name := range names {
		f.VirtualNodes = append(f.VirtualNodes, virtualNode(name))
	}
}

func TestThePodsOfTheWorkloadAreNotCountedAgainstIt(t *testing.T) {
	facts := shop()
	used(&facts, "cpu", "3")
	workload := planner.Workload{Kind: "Pod", Namespace: "shop", Name: "web"}
	facts.Replaced = map[planner.Workload]map[string]corev1.ResourceList{workload: {"milan": {corev1.ResourceCPU: resource.MustParse("2")}}}
	planned := predict(t, facts, web(requests("cpu", "3")))
	assert.Equal(t, []string{"milan"}, planned.Fitting())
	other := web(requests("cpu", "3"))
	other.Name = "other"
	assert.Empty(t, predict(t, facts, other).Fitting())
}

func TestTheWorkloadsOfAPod(t *testing.T) {
	controlled := func(kind, name string, labels map[string]string) *corev1.Pod {
		yes := true
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p", Labels: labels, OwnerReferences: []metav1.OwnerReference{{Kind: kind, Name: name, Controller: &yes}}}}
	}
	hash := map[string]string{"pod-template-hash": "7b7d9d77d9"}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want []planner.Workload
	}{
		"a pod of its own":       {web(), []planner.Workload{{Kind: "Pod", Namespace: "shop", Name: "web"}}},
		"a Deployment's":         {controlled("ReplicaSet", "big-web-7b7d9d77d9", hash), []planner.Workload{{Kind: "Pod", Namespace: "shop", Name: "p"}, {Kind: "ReplicaSet", Namespace: "shop", Name: "big-web-7b7d9d77d9"}, {Kind: "Deployment", Namespace: "shop", Name: "big-web"}}},
		"a ReplicaSet's":         {controlled("ReplicaSet", "big-web", hash), []planner.Workload{{Kind: "Pod", Namespace: "shop", Name: "p"}, {Kind: "ReplicaSet", Namespace: "shop", Name: "big-web"}}},
		"a StatefulSet's":        {controlled("StatefulSet", "db-1", nil), []planner.Workload{{Kind: "Pod", Namespace: "shop", Name: "p"}, {Kind: "StatefulSet", Namespace: "shop", Name: "db-1"}}},
		"a CronJob's":            {controlled("Job", "report-29384756", nil), []planner.Workload{{Kind: "Pod", Namespace: "shop", Name: "p"}, {Kind: "Job", Namespace: "shop", Name: "report-29384756"}, {Kind: "CronJob", Namespace: "shop", Name: "report"}}},
		"a Job's with a dash":    {controlled("Job", "train-model", nil), []planner.Workload{{Kind: "Pod", Namespace: "shop", Name: "p"}, {Kind: "Job", Namespace: "shop", Name: "train-model"}}},
		"a controller without -": {controlled("ReplicaSet", "web", nil), []planner.Workload{{Kind: "Pod", Namespace: "shop", Name: "p"}, {Kind: "ReplicaSet", Namespace: "shop", Name: "web"}}},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, planner.WorkloadsOf(tc.pod)) })
	}
}
