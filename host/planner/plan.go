package planner

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// Result is what becomes of the pods of a template.
type Result string

// The results.
const (
	// Offloadable: a virtual node takes the pod, and nothing prevents it from running there.
	Offloadable Result = "Offloadable"
	// Local: the pod stays in this cluster.
	Local Result = "Local"
	// Pending: the pod is created and does not run.
	Pending Result = "Pending"
	// Refused: the pod is not created.
	Refused Result = "Refused"
)

// Stage is where a change or a problem occurs.
type Stage string

// The stages, in the order of a pod's life.
const (
	// Admission: the pod webhook.
	Admission Stage = "Admission"
	// Scheduling: kube-scheduler of the consumer.
	Scheduling Stage = "Scheduling"
	// Mapping: the namespace in the provider.
	Mapping Stage = "Mapping"
	// Forging: the ShadowPod is built.
	Forging Stage = "Forging"
	// Running: the provider's kubelet.
	Running Stage = "Running"
)

// Reason is why a pod does not run.
type Reason struct {
	Stage Stage `json:"stage"`
	// Reason is a CamelCase word.
	Reason string `json:"reason"`
	// Message says what is wrong and who can correct it.
	Message string `json:"message"`
}

// Verb is what happens to a field.
type Verb string

// The verbs of rules. Policies have those of the contract.
const (
	// Dropped: the field is not sent.
	Dropped Verb = "drop"
	// Changed: the field is sent with another value.
	Changed Verb = "change"
	// Added: the field is added.
	Added Verb = "add"
)

// Change is a field that differs between two stages.
type Change struct {
	Stage Stage `json:"stage"`
	// What is the verb and the path, as "drop /spec/nodeSelector".
	What string `json:"what"`
	// Policy is the name of the OffloadingPolicy; empty for a rule of the forge.
	Policy string `json:"policy,omitempty"`
	// Why is the reason of a rule; empty for a policy.
	Why string `json:"why,omitempty"`
}

// Node is the verdict about one virtual node.
type Node struct {
	Name string `json:"name"`
	// Provider is the ClusterID of the provider.
	Provider string `json:"provider"`
	// Fits reports whether the scheduler may choose the node.
	Fits bool `json:"fits"`
	// Reason is why it does not fit, or why the pod would wait there.
	Reason string `json:"reason,omitempty"`
	// Mapped reports whether the namespace is offloaded to the provider.
	Mapped bool `json:"mapped"`
}

// State is what becomes of an object that a pod needs.
type State string

// The states, in the order of a list.
const (
	// Missing: the object does not exist, or was not given.
	Missing State = "Missing"
	// NotReflected: the object stays in this cluster.
	NotReflected State = "NotReflected"
	// Reflected: the object follows the pod to the provider.
	Reflected State = "Reflected"
)

// Follow is an object that the pod refers to, or a Service that selects it.
type Follow struct {
	Kind  string `json:"kind"`
	Name  string `json:"name"`
	State State  `json:"state"`
	// Optional reports that the pod starts without the object.
	Optional bool `json:"optional,omitempty"`
	// Why says why the object is not reflected, or where it was looked up.
	Why string `json:"why,omitempty"`
	// who can correct it; the owner of the pod when empty.
	who string
}

// Plan is the prediction for the pods of one template.
type Plan struct {
	// Kind and Name of the object with the template, and the namespace.
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Replicas is the number of pods; nil if the kind has none.
	Replicas *int32 `json:"replicas,omitempty"`
	Result   Result `json:"result"`
	// Reason is the first reason why the pod does not run in a provider; nil if it does.
	Reason *Reason `json:"reason,omitempty"`
	// Nodes are all virtual nodes.
	Nodes []Node `json:"nodes,omitempty"`
	// Changes of the pod, in order.
	Changes []Change `json:"changes,omitempty"`
	// Follows are the objects that the pod needs, missing ones first.
	Follows []Follow `json:"follows,omitempty"`
	// Warnings of policies.
	Warnings []string `json:"warnings,omitempty"`
	// Assumed is what was not given.
	Assumed []string `json:"assumed,omitempty"`
	// AdmittedPod is the pod after the pod webhook.
	AdmittedPod *corev1.Pod `json:"admittedPod,omitempty"`
	// node is the virtual node that the ShadowPod is for; nil if there is none.
	node *virtualNode
	// ShadowPod that is sent; nil if there is none.
	ShadowPod *offloadingv1beta1.ShadowPod `json:"shadowPod,omitempty"`
}

func (p *Plan) local(reason, message string) {
	p.Result, p.Reason = Local, &Reason{Stage: Scheduling, Reason: reason, Message: message}
}

// block records a reason, unless an earlier one is known.
func (p *Plan) block(result Result, stage Stage, reason, format string, arguments ...any) {
	if p.Reason == nil {
		p.Result, p.Reason = result, newReason(stage, reason, format, arguments...)
	}
}

// Fitting returns the names of the virtual nodes on which the pod may land.
func (p *Plan) Fitting() []string {
	var names []string
	for i := range p.Nodes {
		if p.Nodes[i].Fits {
			names = append(names, p.Nodes[i].Name)
		}
	}
	return names
}

// settle finds the first reason why a pod that can be scheduled does not run, and the result.
func (p *Plan) settle(strategy offloadingv1beta1.PodOffloadingStrategyType) {
	p.sortFollows()
	if reason, _ := p.unmetNeed(len(p.Fitting()) > 0); reason != nil && p.Reason == nil {
		p.Result, p.Reason = Pending, reason
	}
	if p.Reason == nil {
		p.Result = Offloadable
		return
	}
	noNode := p.Reason.Stage == Scheduling && len(p.Fitting()) == 0
	if noNode && strategy == offloadingv1beta1.LocalAndRemotePodOffloadingStrategyType && p.Reason.Reason != corev1.PodReasonSchedulingGated {
		p.Result = Local
	}
}

func (p *Plan) sortFollows() {
	slices.SortStableFunc(p.Follows, func(a, b Follow) int {
		return cmp.Or(cmp.Compare(order(a), order(b)), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
}

// unmetNeed returns why the pod waits for the first object that it needs and that is missing or, for a
// pod in a provider, stays in this cluster; nil if it has them all. who can correct it.
func (p *Plan) unmetNeed(isRemote bool) (reason *Reason, who string) {
	for i := range p.Follows {
		f := &p.Follows[i]
		if f.Optional || f.State == Reflected || f.Kind == kindService || f.State == NotReflected && !isRemote {
			continue
		}
		who = cmp.Or(f.who, Owner)
		if f.State == Missing {
			return newReason(Running, ReasonMissingObject, "%s %q is missing in namespace %q: %s. The owner of the pod must create it.", f.Kind, f.Name, p.Namespace, f.Why), who
		}
		return newReason(Running, ReasonObjectNotReflected, "%s %q does not follow the pod: %s. Without it, the remote pod does not start.", f.Kind, f.Name, f.Why), who
	}
	return nil, ""
}

func newReason(stage Stage, reason, format string, arguments ...any) *Reason {
	return &Reason{Stage: stage, Reason: reason, Message: fmt.Sprintf(format, arguments...)}
}

func order(f Follow) int {
	switch {
	case f.State == Missing && !f.Optional:
		return 0
	case f.State == Missing:
		return 1
	case f.State == NotReflected:
		return 2
	default:
		return 3
	}
}
