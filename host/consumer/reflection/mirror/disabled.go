package mirror

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
)

// disabled removes the remote objects of a kind that is no longer reflected: an earlier
// process may have made them. It reads them once in each mapped namespace, and watches nothing.
type disabled[T client.Object] struct{ of *definition[T] }

var (
	_ engine.Definition = (*disabled[client.Object])(nil)
	_ engine.Remapper   = (*disabled[client.Object])(nil)
)

// Resource implements engine.Definition.
func (d *disabled[T]) Resource() engine.Resource {
	resource := d.of.Resource()
	return engine.Resource{
		Name: resource.Name, Local: resource.Local, Remote: resource.Remote, LocalUnwatched: true, RemoteOnce: true,
		// The annotations of a remote object do not count.
		Policy: offloadingv1beta1.CustomLiqo, LeaderOnly: true, Workers: 1,
	}
}

// Decide implements engine.Definition.
func (d *disabled[T]) Decide(in engine.Input) ([]engine.Action, error) {
	if d.of.kind.ignore != nil {
		if reason := d.of.kind.ignore(in); reason != "" {
			return keep(reason), nil
		}
	}
	if action := d.of.checkPurpose(in, false); action != nil {
		return []engine.Action{action}, nil
	}
	if action := d.of.checkRemote(in, false); action != nil {
		return []engine.Action{action}, nil
	}
	return withdraw(in), nil
}

// ToRemote implements engine.Remapper.
func (d *disabled[T]) ToRemote(name string) string { return d.of.ToRemote(name) }

// ToLocal implements engine.Remapper.
func (d *disabled[T]) ToLocal(name string, object func() metav1.Object) string {
	return d.of.ToLocal(name, object)
}
