package status

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/host/forge/local"
	"github.com/longshore-dev/longshore/host/kit/plaintext"
)

// Bounds of what is read and shown of events.
const (
	// maxWarnings is how many events of each reason are read. For each, its object is read.
	maxWarnings = 10
	// repeats is longer than the minute after which a virtual kubelet repeats a warning on its VirtualNode.
	repeats = 5 * time.Minute
	// maxText is how much of a text that another cluster may have written is shown.
	maxText = 400
)

// warningReasons are the reasons of events about what a peer sends and what is not used of it: no status says it.
var warningReasons = []string{"BrokenKubeconfig", "CannotBeDecoded", "NotReplicated", "ProviderSendsTooMuch"}

// hasEnded reports whether what a warning says is over: an event stays for an hour.
func hasEnded(ctx context.Context, c client.Client, event *corev1.Event, now time.Time) bool {
	about := event.InvolvedObject
	if about.Kind == "VirtualNode" && event.Reason != "BrokenKubeconfig" {
		return now.Sub(local.EventTime(event)) > repeats
	}
	known, err := c.Scheme().New(schema.FromAPIVersionAndKind(about.APIVersion, about.Kind))
	object, ok := known.(client.Object)
	if err != nil || !ok {
		return false
	}
	switch err := c.Get(ctx, client.ObjectKey{Namespace: about.Namespace, Name: about.Name}, object); {
	case apierrors.IsNotFound(err):
		return true
	case err != nil:
		return false
	default:
		return event.Reason == "CannotBeDecoded" || object.GetUID() != about.UID
	}
}

// unreadable returns the resources that cannot be read, although the user may.
func unreadable(s *snapshot) []Problem {
	var found []Problem
	for resource, err := range s.broken {
		found = append(found, Problem{
			Object: resource, Message: "They cannot be read: " + plaintext.Within(err.Error(), maxText), Actor: string(s.id),
			Action: "Correct or delete the object that the message names, or look at what answers for the API server: kubectl get " + resource + " -A",
		})
	}
	slices.SortFunc(found, func(a, b Problem) int { return strings.Compare(a.Object, b.Object) })
	return found
}

// warnings returns what a peer sends and what is not used of it.
func warnings(s *snapshot) []Problem {
	var found []Problem
	for i := range s.warnings {
		event := &s.warnings[i]
		about := event.InvolvedObject
		problem := Problem{
			Object: about.Kind + " " + about.Namespace + "/" + about.Name, Actor: string(s.id),
			Message: joinReason(event.Reason, plaintext.Within(event.Message, maxText)) + " (" + local.EventTime(event).UTC().Format("15:04:05") + " UTC)",
			Action:  fmt.Sprintf("Do what the message says. Its event stays for an hour: kubectl -n %s describe %s %s", about.Namespace, about.Kind, about.Name),
		}
		for j := range s.virtualNodes.Items {
			if vn := &s.virtualNodes.Items[j]; about.Kind == "VirtualNode" && vn.Name == about.Name && vn.Namespace == about.Namespace {
				problem.Peer = string(vn.Spec.ClusterID)
			}
		}
		for j := range s.foreignClusters.Items {
			fc := &s.foreignClusters.Items[j]
			if fc.Status.TenantNamespace.Local == about.Namespace && about.Namespace != "" {
				problem.Peer = string(fc.Spec.ClusterID)
			}
		}
		found = append(found, problem)
	}
	return found
}
