package rig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	builtinpolicies "github.com/longshore-dev/longshore/builtin-policies"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/view"
	"github.com/longshore-dev/longshore/host/policysource/plan"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// defaultPrefix begins the names of the default policies.
const defaultPrefix = "default-"

// provenance is which module may have decided for which policy.
type provenance struct {
	// builtIn is the short digest of the module that was built from this tree.
	builtIn string
	// loaded are the policies with a module of their own, by name.
	loaded map[string]loaded
}

// loaded is what a cluster reports of a policy.
type loaded struct {
	// digests are the short digests that its status, its record of the enforced version and
	// the components have.
	digests []string
	// since is when the last of the components began to run its version. Decisions on older
	// pods may be those of a version that no component reports any more.
	since time.Time
}

// provenance asks a cluster for its policies.
func (c *Cluster) provenance(ctx context.Context) (*provenance, error) {
	lock, err := builtinpolicies.Locked()
	if err != nil {
		return nil, fmt.Errorf("reading the lock of the built-in policies: %w", err)
	}
	list := &policyv1alpha1.OffloadingPolicyList{}
	if err := c.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing the policies of cluster %q: %w", c.Name, err)
	}
	components := &policyv1alpha1.PolicyComponentList{}
	if err := c.List(ctx, components); err != nil {
		return nil, fmt.Errorf("listing the components of cluster %q: %w", c.Name, err)
	}
	p := &provenance{builtIn: chain.ShortDigest(lock.SHA256), loaded: map[string]loaded{}}
	for i := range list.Items {
		p.add(&list.Items[i], components.Items)
	}
	return p, nil
}

func (p *provenance) add(policy *policyv1alpha1.OffloadingPolicy, components []policyv1alpha1.PolicyComponent) {
	switch {
	case policy.Spec.Module.BuiltIn == "":
		p.loaded[policy.Name] = reported(policy, components)
	case !strings.HasPrefix(policy.Name, defaultPrefix):
		p.loaded[policy.Name] = loaded{digests: []string{p.builtIn}}
	}
}

func reported(policy *policyv1alpha1.OffloadingPolicy, components []policyv1alpha1.PolicyComponent) loaded {
	var l loaded
	add := func(digest string) {
		if digest != "" {
			l.digests = append(l.digests, chain.ShortDigest(digest))
		}
	}
	add(policy.Status.Digest)
	if enforced := plan.EnforcedVersion(policy); enforced != nil {
		add(enforced.Digest)
	}
	for i := range components {
		for _, o := range components[i].Status.Policies {
			if o.Name != policy.Name || o.UID != policy.UID {
				continue
			}
			add(o.Digest)
			if o.Since.After(l.since) {
				l.since = o.Since.Time
			}
		}
	}
	return l
}

// check holds the decisions on a pod that was created at a time against what the cluster
// reports: a default policy decides by the built-in module, another one by a module that
// its status names, or named when the pod came to be. Of policies that were taken away
// since, only that they were asked is left.
func (p *provenance) check(created time.Time, decisions []view.Entry) error {
	admitted := false
	for i := range decisions {
		d := &decisions[i]
		if d.Omitted > 0 {
			continue // It counts others, and is none.
		}
		if err := p.checkOne(created, d); err != nil {
			return err
		}
		admitted = admitted || d.Point == string(contract.PodMutation)
	}
	if !admitted {
		return errors.New("no policy decided about its admission")
	}
	return nil
}

func (p *provenance) checkOne(created time.Time, d *view.Entry) error {
	own, exists := p.loaded[d.Policy]
	switch {
	case !exists && d.Policy != "" && !strings.HasPrefix(d.Policy, defaultPrefix):
		return nil
	case !exists && d.Digest != p.builtIn:
		return fmt.Errorf("the decision of policy %q at %s is of module %s with digest %s, not of the built-in module %s",
			d.Policy, d.Point, d.Module, d.Digest, p.builtIn)
	case !exists, slices.Contains(own.digests, d.Digest), d.FellBack, d.Ignored && d.Digest == "", !created.After(own.since):
		return nil
	}
	return fmt.Errorf("the decision of policy %q at %s is of module %s with digest %s, and the policy reports %s",
		d.Policy, d.Point, d.Module, d.Digest, strings.Join(own.digests, ", "))
}
