package status

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/longshore-dev/longshore/cmd/longshorectl/admin"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
)

// newReader returns a cluster with an index for each field that is selected, in which lists fail as fail says.
func newReader(fail func(client.ObjectList) error, objects ...client.Object) *admin.Cluster {
	field := func(get func(client.Object) string) client.IndexerFunc {
		return func(object client.Object) []string { return []string{get(object)} }
	}
	inner := fakeclient.Builder(objects...).
		WithIndex(&corev1.Pod{}, "spec.nodeName", field(func(o client.Object) string { return o.(*corev1.Pod).Spec.NodeName })).
		WithIndex(&corev1.Pod{}, "status.phase", field(func(o client.Object) string { return string(o.(*corev1.Pod).Status.Phase) })).
		WithIndex(&corev1.Event{}, "reason", field(func(o client.Object) string { return o.(*corev1.Event).Reason })).
		WithIndex(&corev1.Event{}, "type", field(func(o client.Object) string { return o.(*corev1.Event).Type })).
		WithInterceptorFuncs(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if err := fail(list); err != nil {
				return err
			}
			return c.List(ctx, list, options...)
		}}).Build()
	return &admin.Cluster{Client: inner, ID: "rome", Host: "https://rome.example:6443", Namespace: "longshore"}
}

func objectsOf(s *snapshot) []client.Object {
	var all []client.Object
	for i := range s.virtualNodes.Items {
		all = append(all, &s.virtualNodes.Items[i])
	}
	for i := range s.slices.Items {
		all = append(all, &s.slices.Items[i])
	}
	for i := range s.offloadings.Items {
		all = append(all, &s.offloadings.Items[i])
	}
	return all
}

// Everything can be read, but for one kind each time: nothing is said about what was not read.
func TestWhatCannotBeReadIsSaid(t *testing.T) {
	var kinds []string
	_, err := read(t.Context(), newReader(func(list client.ObjectList) error {
		kinds = append(kinds, kindOf(list))
		return nil
	}, objectsOf(healthyCluster())...), now)
	require.NoError(t, err)
	slices.Sort(kinds)
	kinds = slices.Compact(kinds)
	require.Len(t, kinds, 16)
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "some"}, "", errors.New("no right"))
			for name, tc := range map[string]struct {
				err      error
				unread   int
				problems int
			}{
				"forbidden": {forbidden, 1, 0}, "undecodable": {errors.New("unable to decode"), 0, 1},
			} {
				s, err := read(t.Context(), newReader(func(list client.ObjectList) error {
					if kindOf(list) == kind {
						return tc.err
					}
					return nil
				}, objectsOf(healthyCluster())...), now)
				require.NoError(t, err)
				assert.Len(t, s.unread, tc.unread, name)
				assert.Len(t, unreadable(s), tc.problems, name)
			}
		})
	}
	_, err = read(t.Context(), newReader(func(client.ObjectList) error { return &url.Error{Op: "Get", Err: errors.New("refused")} }), now)
	require.ErrorContains(t, err, "reading the deployments of the cluster at https://rome.example:6443")
}

func kindOf(list client.ObjectList) string { return fmt.Sprintf("%T", list) }

func TestNothingIsWrongWithWhatIsNotRead(t *testing.T) {
	s := healthyCluster()
	s.nodes.Items, s.tenants.Items, s.offloadings.Items = nil, nil, nil
	denied := slices.Clone(s.slices.Items[1].Status.Conditions)
	denied[0].Status = authv1beta1.ResourceSliceConditionDenied
	s.slices.Items[1].Status.Conditions, s.pods = denied, s.pods[:3]
	s.unread = []string{resourceNodes, resourceTenants, resourceOffloadings}
	report := build(s)
	assert.Empty(t, report.Problems)
	var out bytes.Buffer
	require.NoError(t, report.text(&out, output.Colored(false)))
	assert.Contains(t, out.String(), "Not read: nodes, tenants, namespaceoffloadings. You have no right to list them:\nproblems with them are not found.\n")
	assert.Contains(t, out.String(), "No problem was found in what could be read.")
}

func TestWarningsAboutAPeerEndWithTheirCause(t *testing.T) {
	slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-oslo", Name: "rome", UID: "1"}}
	event := func(kind, reason string, uid types.UID, at time.Time) *corev1.Event {
		return &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: slice.Namespace, Name: "event"}, Type: corev1.EventTypeWarning, Reason: reason, LastTimestamp: metav1.NewTime(at),
			InvolvedObject: corev1.ObjectReference{APIVersion: authv1beta1.GroupVersion.String(), Kind: kind, Namespace: slice.Namespace, Name: slice.Name, UID: uid},
		}
	}
	undecodable := errors.New("unable to decode")
	for name, tc := range map[string]struct {
		event  *corev1.Event
		get    error
		isSeen bool
	}{
		"an object is not replicated":                {event: event("ResourceSlice", "NotReplicated", "1", now), isSeen: true},
		"the object was deleted":                     {event: event("ResourceSlice", "NotReplicated", "1", now), get: apierrors.NewNotFound(schema.GroupResource{}, "rome")},
		"another object has its name":                {event: event("ResourceSlice", "NotReplicated", "2", now)},
		"an object cannot be decoded":                {event: event("ResourceSlice", "CannotBeDecoded", "1", now), get: undecodable, isSeen: true},
		"it can be decoded again":                    {event: event("ResourceSlice", "CannotBeDecoded", "1", now)},
		"a provider sends too much":                  {event: event("VirtualNode", "ProviderSendsTooMuch", "1", now.Add(-time.Minute)), isSeen: true},
		"a provider has sent too much":               {event: event("VirtualNode", "ProviderSendsTooMuch", "1", now.Add(-2*repeats))},
		"a kind that is not known cannot be decoded": {event: event("Another", "CannotBeDecoded", "1", now), isSeen: true},
		"another reason":                             {event: event("ResourceSlice", "Another", "1", now)},
	} {
		t.Run(name, func(t *testing.T) {
			c := newReader(func(client.ObjectList) error { return nil }, slice.DeepCopy(), tc.event)
			c.Client = interceptor.NewClient(c.Client.(client.WithWatch), interceptor.Funcs{
				Get: func(ctx context.Context, inner client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
					if tc.get != nil {
						return tc.get
					}
					return inner.Get(ctx, key, object, options...)
				},
			})
			s, err := read(t.Context(), c, now)
			require.NoError(t, err)
			assert.Equal(t, tc.isSeen, len(s.warnings) == 1)
		})
	}
}
