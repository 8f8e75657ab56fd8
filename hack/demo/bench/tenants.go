package main

import (
	"context"
	"fmt"
	"time"
)

// tenantSizes are the sizes of bench-tenants.
type tenantSizes struct {
	// tenants of the provider.
	tenants int
	// seconds of the load of ShadowPods, rate of them a second.
	seconds, rate int
}

var (
	fullTenants  = tenantSizes{tenants: 50, seconds: 15, rate: 200}
	quickTenants = tenantSizes{tenants: 5, seconds: 3, rate: 50}
)

const (
	// referencePeering is how long the reference system takes for a pair on these clusters.
	referencePeering   = 5.5
	peeringGoal        = 3
	quotaAdmissionGoal = 10
	tenantRequests     = 4
	providerWebhook    = "longshore/webhook@milan"
	providerManager    = "longshore/manager@milan"
	webhookMetrics     = "8082"
	// idleSettle is how long an installation is left alone before its memory is read.
	idleSettle = 15 * time.Second
)

// measureTenants measures a provider with many consumers.
func (b *bench) measureTenants(ctx context.Context) error {
	ctx, cancel := withPatience(ctx, longPatience)
	defer cancel()
	t := &tenancy{bench: b, sizes: fullTenants}
	if b.quick {
		t.sizes = quickTenants
	}
	return b.inTestbed(ctx, nil, func(ctx context.Context) error {
		t.reportPeering()
		if err := t.createTenants(ctx); err != nil {
			return err
		}
		return t.admitShadowPods(ctx)
	})
}

// tenancy is one measurement of tenants.
type tenancy struct {
	*bench
	sizes   tenantSizes
	tenants []*tenant
}

// reportPeering records how long the first peering took, with nothing else under way.
func (t *tenancy) reportPeering() {
	peering, node := t.testbed.peering.Seconds(), t.testbed.virtualNode.Seconds()
	t.record.add(
		compare("tenants/peering", "s", peering, referencePeering, valueGoal(peeringGoal),
			"longshorectl peer of two clusters without a ResourceSlice; baseline: the reference system's whole command"),
		compare("tenants/peering-with-virtual-node", "s", peering+node, referencePeering, valueGoal(peeringGoal),
			"longshorectl peer, and its virtual node until the Node is ready; baseline: the reference system's whole command, which does not wait for the Node"),
	)
}

// createTenants makes the tenants, and records what each costs the provider.
func (t *tenancy) createTenants(ctx context.Context) error {
	if err := pause(ctx, idleSettle); err != nil {
		return err
	}
	t.logf("tenants: %d", t.sizes.tenants)
	t.tenants = make([]*tenant, t.sizes.tenants)
	var took float64
	w, err := t.during(ctx, idleSettle, func(ctx context.Context) (err error) {
		took, err = each(ctx, tenantRequests, t.sizes.tenants, func(ctx context.Context, i int) (err error) {
			t.tenants[i], err = t.testbed.createTenant(ctx, fmt.Sprintf("tenant-%02d", i))
			return err
		})
		return err
	})
	if err != nil {
		return err
	}
	count := float64(t.sizes.tenants)
	grown := func(process string) float64 {
		return (w.after[process].anonymous - w.before[process].anonymous) * kibOfMiB / count
	}
	note := fmt.Sprintf("%d tenants of one provider, each with a ResourceSlice and a namespace; one run", t.sizes.tenants)
	t.record.add(
		figure("tenants/ready", "s", took, fmt.Sprintf("until all have credentials, Quota and namespace, %d at a time; %s", tenantRequests, note)),
		figure("tenants/memory-per-tenant-manager", kib, grown(providerManager), "growth of anonymous memory of the provider's manager; "+note),
		figure("tenants/memory-per-tenant-webhook", kib, grown(providerWebhook), "growth of anonymous memory of the provider's webhook; "+note),
		figure("tenants/requests-per-tenant", "requests", w.requests(func(r request) bool {
			return r.disturbs() && r.Cluster == t.testbed.milan.Name
		})/count, "requests of Longshore in the provider until a tenant has credentials, Quota and namespace; "+note),
	)
	return nil
}
