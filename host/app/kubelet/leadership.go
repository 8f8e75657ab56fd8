package kubelet

import (
	"context"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/consumer/election"
)

// leadership campaigns once for all virtual nodes of a process.
type leadership struct {
	*election.Group[*virtualNode]
	election *election.Election
}

func newLeadership(o *Options, config *rest.Config) (*leadership, error) {
	l := &leadership{Group: election.NewGroup[*virtualNode](o.NodePingInterval)}
	var err error
	l.election, err = newElection(o, config, l, l.SetLeading)
	return l, err
}

// Name implements election.Member.
func (v *virtualNode) Name() string { return v.options.NodeName }

// Failures implements election.Member.
func (v *virtualNode) Failures(ctx context.Context, recheck bool) int {
	return v.link.Failures(ctx, recheck)
}

// SetLeading implements election.Member. It passes the result of the election to the current session and
// to later ones.
func (v *virtualNode) SetLeading(leading bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.leading = leading
	if v.session != nil {
		v.session.lead(leading)
	}
}

// Chosen implements election.Member. It writes observations that were not written while another virtual
// node was chosen.
func (v *virtualNode) Chosen() {
	v.mu.Lock()
	observations := v.observations
	v.mu.Unlock()
	if observations == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), eventTimeout)
	defer cancel()
	if err := v.writeReflections(ctx, observations); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Reporting ResourceReflections failed", "node", v.options.NodeName)
	}
}

// keepReport stores the observations of a virtual node of a shared process, and reports whether they are
// to be written. Chosen writes those of a virtual node that is chosen later.
func (v *virtualNode) keepReport(observations []policyv1alpha1.ReflectionObservation) bool {
	v.mu.Lock()
	v.observations = observations
	v.mu.Unlock()
	return v.leadership.IsChosen(v)
}
