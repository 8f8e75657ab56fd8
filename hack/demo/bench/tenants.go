package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
)

// tenantsFlag marks the commands whose results a run of everything else leaves alone.
const tenantsFlag = " -tenants"

// tenantSizes are the sizes of bench-tenants.
type tenantSizes struct {
	// tenants of the provider, and as many providers of the consumer.
	tenants int
	// seconds of the load of ShadowPods, rate of them a second.
	seconds, rate int
}

var (
	fullTenants  = tenantSizes{tenants: 50, seconds: 15, rate: 200}
	quickTenants = tenantSizes{tenants: 5, seconds: 3, rate: 50}
)

const (
	tenantsPatience = 20 * time.Minute
	// referencePeering is how long the reference system takes for a pair on these clusters.
	referencePeering   = 5.5
	peeringGoal        = 3
	quotaAdmissionGoal = 10
	tenantRequests     = 4
	providerWebhook    = "longshore/webhook@milan"
	providerManager    = "longshore/manager@milan"
	webhookMetrics     = "8082"
)

// tenants measures a provider with many consumers, and a consumer with many providers.
func (b *bench) tenants(ctx context.Context, o options, dir string) (err error) {
	sizes := fullTenants
	if b.quick {
		sizes = quickTenants
	}
	ctx, cancel := context.WithTimeoutCause(ctx, tenantsPatience, fmt.Errorf("not done after %s", tenantsPatience))
	defer cancel()
	b.testbed, err = startTestbed(ctx, testbedOptions{
		longshore: o.longshore, dir: filepath.Join(dir, "clusters"), audit: true, simulatedNodes: scaleNodes, logf: b.logf,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.testbed.stop(context.WithoutCancel(ctx))) }()
	t := &tenancy{bench: b, sizes: sizes}
	for _, step := range []func(context.Context) error{t.reportPeering, t.createTenants, t.quietPeers, t.admitWithQuota, t.admitWithoutQuota} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// tenancy is one measurement of tenants.
type tenancy struct {
	*bench
	sizes   tenantSizes
	tenants []*tenant
	// withQuota are the figures of the load with Quotas.
	withQuota admissionTimes
}

// within is a goal of the full sizes.
func (t *tenancy) within(most float64) goal {
	if t.sizes != fullTenants {
		return goal{}
	}
	return valueGoal(most)
}

// reportPeering records how long the first peering took, with nothing else under way.
func (t *tenancy) reportPeering(context.Context) error {
	took := t.testbed.took
	t.record.add(
		compare("tenants/peering", "s", took.peering.Seconds(), referencePeering, valueGoal(peeringGoal),
			"longshorectl peer of two clusters without a ResourceSlice; baseline: the reference system's whole command"),
		compare("tenants/peering-with-virtual-node", "s", (took.peering+took.virtualNode).Seconds(), referencePeering, valueGoal(peeringGoal),
			"longshorectl peer, and its virtual node until the Node is ready; baseline: the reference system's whole command, which does not wait for the Node"),
	)
	return nil
}

// createTenants makes the tenants, and records what each costs the provider.
func (t *tenancy) createTenants(ctx context.Context) error {
	if err := pause(ctx, idleSettle); err != nil {
		return err
	}
	window, err := t.open()
	if err != nil {
		return err
	}
	t.logf("tenants: %d", t.sizes.tenants)
	t.tenants = make([]*tenant, t.sizes.tenants)
	began := time.Now()
	group, creating := errgroup.WithContext(ctx)
	group.SetLimit(tenantRequests)
	for i := range t.tenants {
		group.Go(func() (err error) {
			t.tenants[i], err = t.testbed.createTenant(creating, fmt.Sprintf("tenant-%02d", i))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	count, took := float64(t.sizes.tenants), time.Since(began)
	if err := pause(ctx, idleSettle); err != nil {
		return err
	}
	after, err := t.testbed.usage()
	if err != nil {
		return err
	}
	asked, err := t.testbed.audit.since()
	if err != nil {
		return err
	}
	const kibOfMiB = 1024
	grown := func(process string) float64 {
		return (after[process].anonymous - window.before[process].anonymous) * kibOfMiB / count
	}
	note := fmt.Sprintf("%d tenants of one provider, each with a ResourceSlice and a namespace; one run", t.sizes.tenants)
	t.record.add(
		figure("tenants/ready", "s", took.Seconds(), fmt.Sprintf("until all have credentials, Quota and namespace, %d at a time; %s", tenantRequests, note)),
		figure("tenants/memory-per-tenant-manager", kib, grown(providerManager), "growth of anonymous memory of the provider's manager; "+note),
		figure("tenants/memory-per-tenant-webhook", kib, grown(providerWebhook), "growth of anonymous memory of the provider's webhook; "+note),
		figure("tenants/requests-per-tenant", "requests", float64(asked.sum(func(r request) bool {
			return r.Ours && !r.idle() && r.Cluster == t.testbed.milan.Name
		}))/count, "requests of Longshore in the provider until a tenant has credentials, Quota and namespace; "+note),
	)
	return nil
}

// quietPeers counts the requests of a minute in which nothing happens: the provider has its
// tenants, and the consumer as many peers.
func (t *tenancy) quietPeers(ctx context.Context) error {
	for _, tenant := range t.tenants {
		if err := t.testbed.addProvider(ctx, tenant); err != nil {
			return err
		}
	}
	if err := t.testbed.waitProviders(ctx, t.sizes.tenants+1); err != nil {
		return err
	}
	minute, settle, silence := quietMinute, quietSettle, quietSilence
	if t.quick {
		minute, settle, silence = minute/quickShare, settle/quickShare, silence/quickShare
	}
	if err := t.silence(ctx, settle, silence); err != nil {
		return err
	}
	t.logf("tenants: nothing happens for %s", minute)
	window, err := t.open()
	if err != nil {
		return err
	}
	if err := pause(ctx, minute); err != nil {
		return err
	}
	after, err := t.testbed.usage()
	if err != nil {
		return err
	}
	asked, err := t.testbed.audit.since()
	if err != nil {
		return err
	}
	all := asked.sum(func(r request) bool { return r.Ours || t.isTenant(r.Who) })
	probes := asked.sum(func(r request) bool { return t.isTenant(r.Who) && r.Verb == "get" })
	note := fmt.Sprintf("in %s; a provider with %d tenants, a consumer with %d providers", minute, t.sizes.tenants, t.sizes.tenants+1)
	t.record.add(
		figure("tenants/quiet-requests", "requests", float64(all), "all requests of Longshore in both clusters, "+note),
		figure("tenants/quiet-requests-per-peer", "requests", float64(all)/float64(t.sizes.tenants), note),
		figure("tenants/quiet-probes", "requests", float64(probes), "reads with the credentials of the added peers: probes of API servers, "+note),
		figure("tenants/quiet-cpu", "CPU-s", cpuBetween(window.before, after, ours), note),
		figure("tenants/quiet-manager-anonymous", mib, after["longshore/manager@rome"].anonymous, "manager of the consumer, "+note),
	)
	t.logRequests(asked)
	return nil
}

// logRequests logs the requests of Longshore by their number; all tenants are one user.
func (t *tenancy) logRequests(asked counts) {
	for _, name := range byCount(asked.group(func(r request) string {
		if t.isTenant(r.Who) {
			r.Who = "tenant"
		} else if !r.Ours {
			return ""
		}
		return r.String()
	})) {
		t.logf("tenants: %s", name)
	}
}

func (t *tenancy) isTenant(user string) bool {
	for _, tenant := range t.tenants {
		if string(tenant.id) == user {
			return true
		}
	}
	return false
}
