package mirror

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

var certificate = CustomResource{
	Name: "certificate.cert-manager.io", Plural: "certificates", ReportsStatus: true,
	Kind: schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "Certificate"},
}

func (c CustomResource) defined() engine.Definition {
	return c.Define(Options{
		Origin: remote.Origin{HomeClusterID: "rome-1", ProviderClusterID: "milan"}, Policy: offloadingv1beta1.AllowList, Workers: 3,
	})
}

// certificateWith returns a Certificate with a status; nil for none.
func certificateWith(status map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"secretName": "web"}}}
	object.SetGroupVersionKind(certificate.Kind)
	object.SetNamespace("shop")
	object.SetName("a")
	if status != nil {
		object.Object["status"] = status
	}
	return object
}

func TestACustomResourceIsMirrored(t *testing.T) {
	d := certificate.defined()
	resource := d.Resource()
	assert.Equal(t, "certificate.cert-manager.io", resource.Name)
	assert.True(t, resource.LocalPerNamespace, "the rights are those in offloaded namespaces")
	assert.True(t, resource.LeaderOnly)
	assert.True(t, resource.Filter)
	assert.Equal(t, offloadingv1beta1.AllowList, resource.Policy)
	assert.Equal(t, "certificates", resource.Local.Plural)
	assert.Equal(t, certificate.Kind, resource.Remote.New().GetObjectKind().GroupVersionKind())
	assert.Equal(t, "CertificateList", resource.Remote.NewList().GetObjectKind().GroupVersionKind().Kind)

	ending := managed(certificateWith(map[string]any{"phase": "x"}))
	ending.SetDeletionTimestamp(new(metav1.Now()))
	current := func() client.Object { return managed(certificateWith(nil)) }
	for name, tc := range map[string]struct {
		in   engine.Input
		want []string
	}{
		"a new object is applied":                 {input(certificateWith(nil), nil), []string{"apply"}},
		"an object is applied again":              {input(certificateWith(nil), current()), []string{"apply"}},
		"the copy of a deleted object is deleted": {input(nil, current()), []string{"delete"}},
		"an unmanaged object is left":             {input(certificateWith(nil), certificateWith(map[string]any{"phase": "x"})), []string{engine.ReasonFailedReflection}},
		"an object that is being deleted":         {input(certificateWith(nil), ending), []string{"keep: the remote object is being deleted"}},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, steps(t, d, tc.in)) })
	}
}

// statuses returns the statuses that a decision writes.
func statuses(t *testing.T, d engine.Definition, in engine.Input) []engine.PatchLocalStatus {
	t.Helper()
	actions, err := d.Decide(in)
	require.NoError(t, err)
	var out []engine.PatchLocalStatus
	for _, action := range actions {
		if patch, ok := action.(engine.PatchLocalStatus); ok {
			out = append(out, patch)
		}
	}
	return out
}

func TestTheStatusOfACustomResourceComesBack(t *testing.T) {
	issued := map[string]any{"phase": "Issued"}
	in := func(local, current map[string]any) engine.Input {
		return input(certificateWith(local), managed(certificateWith(current)))
	}
	patch := func(old, wanted map[string]any, inObject bool) []engine.PatchLocalStatus {
		return []engine.PatchLocalStatus{{Old: content(old), New: content(wanted), InObject: inObject}}
	}
	specOnly, inObject := certificate, certificate
	specOnly.ReportsStatus, inObject.StatusInObject = false, true
	for name, tc := range map[string]struct {
		kind CustomResource
		in   engine.Input
		want []engine.PatchLocalStatus
	}{
		"a status":                         {certificate, in(nil, issued), patch(map[string]any{}, issued, false)},
		"another status":                   {certificate, in(map[string]any{"phase": "New"}, issued), patch(map[string]any{"phase": "New"}, issued, false)},
		"the same status":                  {certificate, in(issued, issued), nil},
		"a status that the provider lost":  {certificate, in(issued, nil), patch(issued, map[string]any{}, false)},
		"no status of a new remote object": {certificate, input(certificateWith(issued), nil), nil},
		"a kind without subresource":       {inObject, in(nil, issued), patch(map[string]any{}, issued, true)},
		"the spec only":                    {specOnly, in(nil, issued), nil},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, statuses(t, tc.kind.defined(), tc.in)) })
	}
}

// A status that controllers of the consumer cannot decode, or that fills etcd, stays away, and its object says so.
func TestAHostileStatusOfACustomResourceIsNotCopied(t *testing.T) {
	for name, tc := range map[string]struct {
		status map[string]any
		want   string
	}{
		"a time that Go does not decode": {map[string]any{"notAfter": "2026-11-28T23:59:60Z"}, "controllers here could not read it: status.notAfter: a time that does not exist"},
		"more than a status has":         {map[string]any{"message": strings.Repeat("x", 1<<20)}, "because it has 1024 KiB and may have 256."},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(certificateWith(nil), managed(certificateWith(tc.status)))
			assert.Empty(t, statuses(t, certificate.defined(), in))
			actions, err := certificate.defined().Decide(in)
			require.NoError(t, err)
			event, _ := actions[len(actions)-1].(engine.RecordEvent)
			assert.Contains(t, event.Message, tc.want)
		})
	}
}

// A controller of the consumer that writes the status too does not cause a write per second.
func TestAContestedStatusIsWrittenLessAndLess(t *testing.T) {
	d, now := certificate.defined(), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var memory any
	writes, events := 0, 0
	for range 60 { // The other writer answers every second for a minute.
		in := input(certificateWith(map[string]any{"phase": "Mine"}), managed(certificateWith(map[string]any{"phase": "Issued"})))
		in.Facts.Now, in.Memory = now, memory
		actions, err := d.Decide(in)
		require.NoError(t, err)
		for _, action := range actions {
			switch a := action.(type) {
			case engine.PatchLocalStatus:
				writes++
			case engine.Remember:
				memory = a.Value
			case engine.RecordEvent:
				events++
				assert.Equal(t, "A controller or user in this cluster keeps changing the status that cluster milan reports. Stop it, or set spec.direction of ResourceReflection certificate.cert-manager.io to SpecOnly.", a.Message)
			}
		}
		now = now.Add(time.Second)
	}
	assert.Less(t, writes, 10)
	assert.NotZero(t, events)
}
