// Package mirror is Pod flow, stage 5: the definitions of the kinds that the reflection
// engine copies to the provider. Each kind is an entry of [Kinds]; from
// these nothing comes back. A [CustomResource] is a kind that an operator names, whose status
// comes back.
package mirror

import (
	"errors"
	"net/netip"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

// Options configure the definition of one kind.
type Options struct {
	Origin remote.Origin
	// Policy is DenyList or AllowList (--<kind>-reflection-type).
	Policy offloadingv1beta1.ReflectionType
	// Workers is the number of objects handled at once (--<kind>-reflection-workers). With 0, the
	// kind is not reflected, and remote objects are removed.
	Workers int
	// Class is the provider's class of remote objects of kinds that have one: the load
	// balancer class of Services, the ingress class of Ingresses. Empty sets none.
	Class string
	// WithheldTypes are the types of Secrets that are not reflected, beside the tokens of service accounts.
	WithheldTypes []string
	// LocalPods returns the pod CIDRs of the consumer, and whether addresses of endpoints are
	// translated for the provider. nil: they are not.
	LocalPods func() ([]netip.Prefix, bool)
}

// Kind is one mirrored kind.
type Kind struct {
	// Name is the lower-case singular word of flags, metrics and events.
	Name string
	// PolicyOf is the name of the kind whose reflection type applies: Name for most.
	PolicyOf string
	// HasAddresses is set for kinds that --disable-ip-reflection switches off.
	HasAddresses bool
	// Define returns the definition.
	Define func(Options) engine.Definition
}

// Kinds returns the mirrored kinds.
func Kinds() []Kind {
	return []Kind{
		entry(configMap),
		entry(secret),
		entry(service),
		entry(ingress),
		entry(endpointSlice),
	}
}

// kind is what sets one kind apart from the others. T is a pointer to its Go type.
type kind[T client.Object] struct {
	name string
	// empty and emptyList return new objects.
	empty     func() client.Object
	emptyList func() client.ObjectList
	// forge builds the remote object. Labels, annotations and the remote namespace are in
	// the input. A remote.LeftOutError beside the object becomes an event.
	forge func(local T, in engine.Input, o Options) (runtime.ApplyConfiguration, error)

	// plural is the name of the resource in URLs; for custom resources.
	plural string
	// report returns the actions that follow from the remote object, after the local one was
	// applied. Optional.
	report func(local, current T, in engine.Input) ([]engine.Action, error)
	// remote is the remote kind where it differs. Optional.
	remote *engine.Kind
	// related are the kinds that decisions also depend on. Optional.
	related []engine.Related
	// policyOf is the name of the kind whose reflection type applies, where it is another.
	policyOf string
	// areMany is set for kinds with many or large objects.
	areMany bool
	// hasAddresses is set for kinds that contain addresses of the consumer.
	hasAddresses bool
	// perNamespace watches mapped namespaces only, where the virtual kubelet may not read
	// others.
	perNamespace bool
	// ignore returns why objects of a key are left as they are, or "". Optional.
	ignore func(in engine.Input) string
	// awaits returns the name of a Service that must be reflected before a local object is, or "". Optional.
	awaits func(local T, in engine.Input) string
	// purpose returns what a remote object is for that Longshore keeps for something else, or "".
	// Optional.
	purpose func(current T) string
	// withhold returns why a local object must not be in the provider, or "". The reason
	// is recorded as an event. Optional.
	withhold func(local T, o Options) string
	// replaces reports whether the remote object must be deleted and created again,
	// because an update cannot change it into what is desired, and what users notice of that. Optional.
	replaces func(desired, current T) (replaces bool, notice string)
	// desired returns the local object with what the options change of the fields that replaces reads.
	// Optional.
	desired func(local T, o Options) T
	// policy returns the reflection policy of a local object, and the object whose
	// annotations it evaluates; d is the configured one. Optional.
	policy func(local T, in engine.Input, d offloadingv1beta1.ReflectionType) (offloadingv1beta1.ReflectionType, client.Object)
	// toRemote and toLocal translate names where these differ. Optional, both or none.
	toRemote, toLocal func(name string, origin remote.Origin) string
}

func entry[T client.Object](k kind[T]) Kind {
	policyOf := k.policyOf
	if policyOf == "" {
		policyOf = k.name
	}
	return Kind{Name: k.name, PolicyOf: policyOf, HasAddresses: k.hasAddresses, Define: func(o Options) engine.Definition {
		enabled := &definition[T]{kind: k, options: o}
		if o.Workers == 0 {
			return &disabled[T]{of: enabled}
		}
		return enabled
	}}
}

// definition mirrors one kind.
type definition[T client.Object] struct {
	kind    kind[T]
	options Options
}

var (
	_ engine.Remapper      = (*definition[client.Object])(nil)
	_ engine.PolicyChooser = (*definition[client.Object])(nil)
	_ engine.Replacer      = (*definition[client.Object])(nil)
)

// Resource implements engine.Definition.
func (d *definition[T]) Resource() engine.Resource {
	local := engine.Kind{New: d.kind.empty, NewList: d.kind.emptyList, Plural: d.kind.plural, Encoded: d.kind.areMany}
	remoteKind := local
	if d.kind.remote != nil {
		remoteKind = *d.kind.remote
	}
	return engine.Resource{
		Name: d.kind.name, Local: local, Remote: remoteKind, Related: d.kind.related,
		LocalPerNamespace: d.kind.perNamespace,
		Policy:            d.options.Policy, Filter: true, LeaderOnly: true, Workers: max(d.options.Workers, 1),
	}
}

// Decide implements engine.Definition.
func (d *definition[T]) Decide(in engine.Input) ([]engine.Action, error) {
	if d.kind.ignore != nil {
		if reason := d.kind.ignore(in); reason != "" {
			return keep(reason), nil
		}
	}
	local, hasLocal := in.Local.(T)
	if action := d.checkPurpose(in, hasLocal && !in.Skipped); action != nil {
		return []engine.Action{action}, nil
	}
	if d.kind.withhold != nil && hasLocal && !in.Skipped {
		if reason := d.kind.withhold(local, d.options); reason != "" {
			return withhold(in, reason), nil
		}
	}
	if action := d.checkRemote(in, hasLocal); action != nil {
		return []engine.Action{action}, nil
	}
	if !hasLocal || in.Skipped {
		return withdraw(in), nil
	}
	return d.send(local, in)
}

// send is the decision about a local object that is reflected.
func (d *definition[T]) send(local T, in engine.Input) ([]engine.Action, error) {
	if d.kind.awaits != nil {
		if service := d.kind.awaits(local, in); service != "" {
			return await(in, service), nil
		}
	}
	actions, err := d.apply(local, in)
	if err != nil {
		return nil, err
	}
	if _, hasWaited := in.Memory.(waiting); hasWaited {
		actions = append(actions, engine.Remember{})
	}
	current, hasRemote := in.Remote.(T)
	if d.kind.report == nil || !hasRemote {
		return actions, nil
	}
	reports, err := d.kind.report(local, current, in)
	return append(actions, reports...), err
}

// leftOutRetry is how soon an object of which parts are left out is decided again: a change of another
// namespace is not an event here.
const leftOutRetry = 5 * time.Minute

// apply returns the actions that send a local object, and report what is left out of it.
func (d *definition[T]) apply(local T, in engine.Input) ([]engine.Action, error) {
	config, err := d.kind.forge(local, in, d.options)
	var leftOut *remote.LeftOutError
	if err != nil && !errors.As(err, &leftOut) {
		return nil, err
	}
	apply := engine.Apply{Config: config}
	if d.kind.desired != nil {
		apply.Desired = d.kind.desired(local, d.options)
	}
	actions := []engine.Action{apply}
	if leftOut != nil {
		actions = append(actions, engine.RecordEvent{
			Type: engine.EventWarning, Reason: engine.ReasonFailedReflection,
			Message: "Parts are not reflected to cluster " + in.Facts.ProviderClusterID + ": " + leftOut.Error(),
		}, engine.Requeue{After: leftOutRetry, Reason: "parts are left out"})
	}
	return actions, nil
}

// checkPurpose returns what is done about a remote object that is for something else, or nil.
func (d *definition[T]) checkPurpose(in engine.Input, isDesired bool) engine.Action {
	current, ok := in.Remote.(T)
	if !ok || d.kind.purpose == nil {
		return nil
	}
	purpose := d.kind.purpose(current)
	switch {
	case purpose == "":
		return nil
	case !isDesired:
		return engine.Keep{Reason: "the remote object is for " + purpose}
	default:
		return engine.RecordEvent{
			Type: engine.EventWarning, Reason: engine.ReasonFailedReflection,
			Message: engine.NotReflected(in.Facts, "its name is that of "+purpose+". Rename it."),
		}
	}
}

// checkRemote returns what is done about a remote object that the mirror must not change, or
// nil.
func (d *definition[T]) checkRemote(in engine.Input, hasLocal bool) engine.Action {
	switch {
	case in.Remote == nil:
		return nil
	case engine.Owned(in.Remote, in.Facts):
		if in.Remote.GetDeletionTimestamp() != nil {
			return engine.Keep{Reason: "the remote object is being deleted"}
		}
		return nil
	case !hasLocal:
		return engine.Keep{Reason: "the remote object is not managed by reflection"}
	default:
		return engine.NameConflict(in.Facts, engine.KindOf(in.Remote), in.Remote.GetName())
	}
}

// withhold is the decision about a local object that must not be in the provider.
func withhold(in engine.Input, reason string) []engine.Action {
	actions := []engine.Action{notReflected(in.Facts, reason)}
	if in.Remote != nil && engine.Owned(in.Remote, in.Facts) && in.Remote.GetDeletionTimestamp() == nil {
		actions = append(actions, engine.DeleteRemote{})
	}
	return actions
}

// withdraw is the decision about a local object that was deleted or is skipped.
func withdraw(in engine.Input) []engine.Action {
	var actions []engine.Action
	if in.Remote != nil {
		actions = append(actions, engine.DeleteRemote{})
	}
	if in.Local != nil && in.SkipAnnotated {
		actions = append(actions, notReflected(in.Facts, "annotation "+offloadingv1beta1.SkipReflectionAnnotation))
	}
	if len(actions) == 0 {
		return keep("the local object is skipped")
	}
	return actions
}

func notReflected(facts engine.Facts, reason string) engine.Action {
	return engine.RecordEvent{
		Type: engine.EventNormal, Reason: engine.ReasonReflectionDisabled, Message: engine.NotReflected(facts, reason),
	}
}

func keep(reason string) []engine.Action { return []engine.Action{engine.Keep{Reason: reason}} }

// ReflectionPolicy implements engine.PolicyChooser.
func (d *definition[T]) ReflectionPolicy(in engine.Input) (offloadingv1beta1.ReflectionType, client.Object) {
	if local, ok := in.Local.(T); ok && d.kind.policy != nil {
		return d.kind.policy(local, in, d.options.Policy)
	}
	return d.options.Policy, in.Local
}

// ToRemote implements engine.Remapper.
func (d *definition[T]) ToRemote(name string) string {
	if d.kind.toRemote == nil {
		return name
	}
	return d.kind.toRemote(name, d.options.Origin)
}

// ToLocal implements engine.Remapper.
func (d *definition[T]) ToLocal(name string, _ func() metav1.Object) string {
	if d.kind.toLocal == nil {
		return name
	}
	return d.kind.toLocal(name, d.options.Origin)
}

// Replaces implements engine.Replacer.
func (d *definition[T]) Replaces(want, there client.Object) (replaces bool, notice string) {
	desired, isKind := want.(T)
	current, isKindToo := there.(T)
	if d.kind.replaces == nil || !isKind || !isKindToo {
		return false, ""
	}
	return d.kind.replaces(desired, current)
}
