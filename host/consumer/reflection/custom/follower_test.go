package custom

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/mirror"
)

const component = "virtual-kubelet/milan-1"

// server is an API server that serves Certificates.
type server struct {
	mu       sync.Mutex
	requests int
	isDown   bool
	// documents are the answers to GET, by path.
	documents map[string]any
	rules     []authorizationv1.ResourceRule
	// names are the objects, deleted those that were deleted.
	names, deleted []string
}

func newServer(t *testing.T, versions ...string) (*server, *End) {
	t.Helper()
	s := &server{rules: []authorizationv1.ResourceRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}}
	s.serve(versions...)
	running := httptest.NewServer(s)
	t.Cleanup(running.Close)
	end, err := NewEnd(&rest.Config{Host: running.URL, QPS: -1})
	require.NoError(t, err)
	return s, end
}

// serve sets the served versions.
func (s *server) serve(versions ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	paths, group := map[string]any{}, metav1.APIGroup{Name: "cert-manager.io"}
	s.documents = map[string]any{"/openapi/v3": map[string]any{"paths": paths}}
	for _, version := range versions {
		path := "apis/cert-manager.io/" + version
		group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{GroupVersion: "cert-manager.io/" + version, Version: version})
		paths[path] = map[string]any{"serverRelativeURL": "/openapi/v3/" + path + "?hash=1"}
		s.documents["/openapi/v3/"+path] = map[string]any{}
		s.documents["/"+path] = metav1.APIResourceList{GroupVersion: "cert-manager.io/" + version, APIResources: []metav1.APIResource{
			{Name: "certificates", Kind: "Certificate", Namespaced: true}, {Name: "certificates/status", Kind: "Certificate", Namespaced: true},
		}}
		s.documents["/apis/cert-manager.io"] = group
	}
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	var answer any
	switch {
	case s.isDown:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case r.Method == http.MethodPost:
		answer = authorizationv1.SelfSubjectRulesReview{Status: authorizationv1.SubjectRulesReviewStatus{ResourceRules: s.rules}}
	case r.Method == http.MethodDelete:
		parts := strings.Split(r.URL.Path, "/")
		s.deleted = append(s.deleted, parts[len(parts)-1])
		s.names = nil
		answer = metav1.Status{Status: metav1.StatusSuccess}
	case strings.Contains(r.URL.Path, "/namespaces/"):
		items := make([]any, len(s.names))
		for i, name := range s.names {
			items[i] = map[string]any{"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "metadata": map[string]any{"name": name, "namespace": "shop-rome", "uid": "u"}}
		}
		answer = map[string]any{"apiVersion": "cert-manager.io/v1", "kind": "CertificateList", "items": items}
	default:
		answer = s.documents[r.URL.Path]
	}
	w.Header().Set("Content-Type", "application/json")
	if answer == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (s *server) set(change func(*server)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// world is a Follower between two servers.
type world struct {
	*Follower
	local, remote *server
	list          []policyv1alpha1.ResourceReflection
	isUnsettled   bool
	reportError   error
	reported      []policyv1alpha1.ReflectionObservation

	mu  sync.Mutex
	log []string
}

// reflection is one that runs until its context ends.
type reflection struct{ world *world }

func (r reflection) Run(ctx context.Context) error { <-ctx.Done(); r.world.note("stop"); return nil }
func (r reflection) Lead(bool)                     {}
func (r reflection) PoliciesChanged()              { r.world.note("policies") }

func (w *world) note(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, what)
}

// notes returns what has happened since the last call.
func (w *world) notes() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	notes := w.log
	w.log = nil
	return notes
}

func newWorld(t *testing.T, list ...policyv1alpha1.ResourceReflection) *world {
	t.Helper()
	w := &world{list: list}
	var local, remote *End
	w.local, local = newServer(t, "v1", "v1beta1")
	w.remote, remote = newServer(t, "v1", "v1beta1")
	w.Follower = New(Options{
		Local: local, Remote: remote, ProviderClusterID: "milan", Component: component, RemoteSelector: "a=b",
		List:       func(context.Context) ([]policyv1alpha1.ResourceReflection, error) { return w.list, nil },
		Namespaces: func() (map[string]string, bool) { return map[string]string{"shop": "shop-rome"}, !w.isUnsettled },
		Report: func(_ context.Context, observations []policyv1alpha1.ReflectionObservation) error {
			if w.reportError != nil {
				return w.reportError
			}
			w.note("report")
			w.reported = observations
			return nil
		},
		New: func(kind mirror.CustomResource, policy offloadingv1beta1.ReflectionType) (Reflection, error) {
			w.note("start " + kind.Kind.Version + " " + string(policy))
			return reflection{w}, nil
		},
	})
	t.Cleanup(func() {
		for _, e := range w.entries {
			w.stop(e)
		}
	})
	return w
}

func (w *world) look(t *testing.T) time.Duration {
	t.Helper()
	wait, err := w.pass(t.Context())
	require.NoError(t, err)
	return wait
}

// reason returns the only reported reason.
func (w *world) reason(t *testing.T) string {
	t.Helper()
	require.Len(t, w.reported, 1)
	return w.reported[0].Reason
}

func certificateReflection() policyv1alpha1.ResourceReflection {
	return policyv1alpha1.ResourceReflection{
		ObjectMeta: metav1.ObjectMeta{Name: "certificate.cert-manager.io", UID: "u", Generation: 1},
		Spec:       policyv1alpha1.ResourceReflectionSpec{Group: "cert-manager.io", Version: "v1", Kind: "Certificate", ReflectionType: "DenyList"},
	}
}

func TestAReflectionStartsAfterItsReport(t *testing.T) {
	w := newWorld(t, certificateReflection())
	w.reportError = errors.New("down")
	_, err := w.pass(t.Context())
	require.Error(t, err)
	assert.Empty(t, w.notes(), "nothing starts that was not reported")

	w.reportError = nil
	assert.Equal(t, readyPeriod, w.look(t))
	assert.Equal(t, []string{"report", "start v1 DenyList"}, w.notes())
	assert.Equal(t, []policyv1alpha1.ReflectionObservation{{Name: "certificate.cert-manager.io", UID: "u", Generation: 1, Reflected: true}}, w.reported)
	w.look(t)
	assert.Empty(t, w.notes(), "nothing has changed")
	w.PoliciesChanged()
	assert.Equal(t, []string{"policies"}, w.notes())
}

func TestAChangeRestartsOnlyWhatItConcerns(t *testing.T) {
	w := newWorld(t, certificateReflection())
	w.look(t)
	w.notes()
	spec := &w.list[0].Spec
	spec.Providers = []string{"milan"}
	w.list[0].Generation = 2
	w.look(t)
	assert.Equal(t, []string{"report"}, w.notes(), "the reflection itself is the same")
	spec.Version = "v1beta1"
	w.look(t)
	assert.Equal(t, []string{"stop", "start v1beta1 DenyList"}, w.notes())
	spec.ReflectionType = "AllowList"
	w.look(t)
	assert.Equal(t, []string{"stop", "start v1beta1 AllowList"}, w.notes())
}

func TestAReflectionEndsWithItsKindAndHeals(t *testing.T) {
	w := newWorld(t, certificateReflection())
	w.look(t)
	w.notes()
	w.remote.serve("v1beta1")
	assert.Equal(t, waitingPeriod, w.look(t))
	assert.Equal(t, []string{"stop", "report"}, w.notes())
	assert.Equal(t, ReasonNotServedByProvider, w.reason(t))
	assert.True(t, w.reported[0].Reflected, "there may be remote objects")
	w.remote.serve("v1")
	w.look(t)
	assert.Equal(t, []string{"report", "start v1 DenyList"}, w.notes())
	w.remote.set(func(s *server) { s.rules = nil })
	w.look(t)
	assert.Equal(t, ReasonForbidden, w.reason(t))
}

func TestAnOutageStopsNothing(t *testing.T) {
	w := newWorld(t, certificateReflection())
	w.look(t)
	w.notes()
	w.remote.set(func(s *server) { s.isDown = true })
	w.look(t)
	assert.Empty(t, w.notes())
	assert.Empty(t, w.reason(t), "what was last known is kept")

	w = newWorld(t, certificateReflection())
	w.remote.set(func(s *server) { s.isDown = true })
	w.look(t)
	assert.Equal(t, []string{"report"}, w.notes(), "nothing can start")
	assert.Equal(t, ReasonUnreachable, w.reason(t))
}

func TestAReportThatIsLostIsWrittenAgain(t *testing.T) {
	w := newWorld(t, certificateReflection())
	w.look(t)
	w.notes()
	w.ReportLost()
	w.reportError = errors.New("later")
	_, err := w.pass(t.Context())
	require.Error(t, err)
	w.reportError = nil
	w.look(t)
	w.look(t)
	assert.Equal(t, []string{"report"}, w.notes(), "once, and nothing starts again")
}

func TestNothingIsDoneWithoutResourceReflections(t *testing.T) {
	w := newWorld(t)
	assert.Equal(t, readyPeriod, w.look(t))
	assert.Empty(t, w.notes())
	assert.Zero(t, w.local.requests+w.remote.requests)
}

func TestNothingIsDoneUntilTheMappedNamespacesAreKnown(t *testing.T) {
	deleted := certificateReflection()
	deleted.DeletionTimestamp = new(metav1.Now())
	deleted.Status.VirtualNodes = []policyv1alpha1.VirtualNodeReflection{{Name: component, Reflected: true}}
	w := newWorld(t, deleted)
	w.isUnsettled = true
	assert.Equal(t, soon, w.look(t))
	assert.Empty(t, w.notes(), "there may be remote objects in namespaces that are not known yet")
}

func TestRemoteObjectsAreWithdrawn(t *testing.T) {
	reflected := []policyv1alpha1.VirtualNodeReflection{{Name: component, Reflected: true}}
	for name, tc := range map[string]struct {
		change  func(*policyv1alpha1.ResourceReflection)
		leads   bool
		status  []policyv1alpha1.VirtualNodeReflection
		deleted []string
		isDone  bool
	}{
		"of a deleted ResourceReflection": {func(r *policyv1alpha1.ResourceReflection) { r.DeletionTimestamp = new(metav1.Now()) }, true, reflected, []string{"web"}, true},
		"of another provider":             {func(r *policyv1alpha1.ResourceReflection) { r.Spec.Providers = []string{"turin"} }, true, reflected, []string{"web"}, true},
		"by the leader only":              {func(r *policyv1alpha1.ResourceReflection) { r.DeletionTimestamp = new(metav1.Now()) }, false, reflected, nil, false},
		"only if there may be any":        {func(r *policyv1alpha1.ResourceReflection) { r.DeletionTimestamp = new(metav1.Now()) }, true, nil, nil, true},
		"in a version that is still served": {func(r *policyv1alpha1.ResourceReflection) {
			r.DeletionTimestamp, r.Spec.Version = new(metav1.Now()), "v2"
		}, true, reflected, []string{"web"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := certificateReflection()
			r.Status.VirtualNodes = tc.status
			tc.change(&r)
			w := newWorld(t, r)
			w.remote.names = []string{"web"}
			w.Lead(tc.leads)
			if len(tc.deleted) > 0 {
				assert.Equal(t, withdrawPeriod, w.look(t))
				assert.Equal(t, ReasonWithdrawing, w.reason(t))
			}
			w.look(t)
			assert.Equal(t, tc.deleted, w.remote.deleted)
			assert.Equal(t, tc.isDone, len(w.reported) == 0, "the observation ends with the last remote object")
		})
	}
}

func TestAResourceReflectionThatVanishedIsWithdrawn(t *testing.T) {
	w := newWorld(t, certificateReflection())
	w.Lead(true)
	w.look(t)
	w.remote.set(func(s *server) { s.names = []string{"web"} })
	w.list = nil
	w.look(t)
	w.look(t)
	assert.Equal(t, []string{"web"}, w.remote.deleted)
	assert.Empty(t, w.reported)
	assert.Empty(t, w.entries)
}

func TestRunStopsItsReflections(t *testing.T) {
	w := newWorld(t, certificateReflection())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	require.Eventually(t, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.log) >= 2
	}, time.Minute, 5*time.Millisecond)
	cancel()
	require.NoError(t, <-ended)
	assert.Equal(t, []string{"report", "start v1 DenyList", "stop"}, w.notes())
}
