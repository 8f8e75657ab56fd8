package replication

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// errorReporter records events on local objects that cannot be replicated. An error is recorded
// again only after another error or a success.
type errorReporter struct {
	events events.EventRecorder
	peer   peer
	// reported is the last error of each object. It is used by the worker only.
	reported map[key]string
}

func newErrorReporter(recorder events.EventRecorder, p peer) *errorReporter {
	return &errorReporter{events: recorder, peer: p, reported: map[key]string{}}
}

// report records an event on the local object, or logs the error if the object does not exist.
func (o *errorReporter) report(ctx context.Context, item key, object *unstructured.Unstructured, err error) {
	if object == nil {
		log.FromContext(ctx).Error(err, "Failed to replicate, retrying", "resource", item.resource.Resource, "name", item.name)
		return
	}
	if text := err.Error(); o.reported[item] != text {
		o.reported[item] = text
		o.events.Eventf(object, nil, corev1.EventTypeWarning, reasonNotReplicated, actionReplicate,
			"Failed to replicate to cluster %s, retrying: %v", o.peer.id, err)
	}
}

// clear removes the last error of an object.
func (o *errorReporter) clear(item key) { delete(o.reported, item) }
