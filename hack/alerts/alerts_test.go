package alerts

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Buckets of histograms are those of the code: PromQL estimates no value above the largest.
var cases = map[string]struct {
	failing []string
	// summary of the alert, and when it fires.
	summary string
	after   time.Duration
	// healthy series are those over which the alert must not fire.
	healthy map[string][]string
}{
	"LongshoreCertificatesFailing": {
		failing: []string{`controller_runtime_reconcile_errors_total{controller="identity"} 0+1x60`},
		summary: "Controller identity, which issues and renews certificates, keeps failing.", after: 16 * time.Minute,
		healthy: map[string][]string{
			"errors of one moment":        {`controller_runtime_reconcile_errors_total{controller="identity"} 0x5 7x60`},
			"errors of other controllers": {`controller_runtime_reconcile_errors_total{controller="quota"} 0+1x60`},
		},
	},
	"LongshoreProviderUnreachable": {
		failing: []string{`longshore_remote_cluster_up{liqo_io_remote_cluster_id="milan",liqo_io_virtual_node="gpu"} 1x10 0x60`},
		summary: "The API server of provider milan cannot be reached from virtual node gpu.", after: 13 * time.Minute,
		healthy: map[string][]string{
			"a short break":          {`longshore_remote_cluster_up{liqo_io_remote_cluster_id="milan",liqo_io_virtual_node="gpu"} 1x10 0 1x60`},
			"one of two is starting": {`longshore_remote_cluster_up{liqo_io_remote_cluster_id="milan",liqo_io_virtual_node="gpu",pod="a"} 0x60`, `longshore_remote_cluster_up{liqo_io_remote_cluster_id="milan",liqo_io_virtual_node="gpu",pod="b"} 1x60`},
		},
	},
	"LongshoreVirtualNodeNotReady": {
		failing: []string{
			`kube_node_status_condition{node="milan",condition="Ready",status="true"} 1x10 0x60`,
			`kube_node_status_condition{node="milan",condition="Ready",status="unknown"} 0x10 1x60`,
			`kube_node_spec_taint{node="milan",key="virtual-node.liqo.io/not-allowed",effect="NoExecute"} 1x70`,
		},
		summary: "Virtual node milan is not ready.", after: 16 * time.Minute,
		healthy: map[string][]string{
			"a ready node": {
				`kube_node_status_condition{node="milan",condition="Ready",status="true"} 1x60`,
				`kube_node_status_condition{node="milan",condition="Ready",status="unknown"} 0x60`,
				`kube_node_spec_taint{node="milan",key="virtual-node.liqo.io/not-allowed",effect="NoExecute"} 1x60`,
			},
			"a node that is not virtual": {`kube_node_status_condition{node="worker",condition="Ready",status="true"} 0x60`, `kube_node_spec_taint{node="worker",key="gpu"} 1x60`},
		},
	},
	"LongshoreVirtualKubeletUnavailable": {
		failing: []string{`kube_deployment_status_replicas_available{namespace="liqo-tenant-milan",deployment="vk-milan"} 0x60`},
		summary: "No virtual kubelet of Deployment vk-milan runs in liqo-tenant-milan.", after: 5 * time.Minute,
		healthy: map[string][]string{
			"it runs":            {`kube_deployment_status_replicas_available{namespace="liqo-tenant-milan",deployment="vk-milan"} 1x60`},
			"another Deployment": {`kube_deployment_status_replicas_available{namespace="shop",deployment="vk-milan"} 0x60`},
		},
	},
	"LongshoreComponentUnavailable": {
		failing: []string{`kube_deployment_status_replicas_available{namespace="longshore",deployment="longshore-webhook"} 0x60`},
		summary: "No replica of longshore-webhook is available.", after: 5 * time.Minute,
		healthy: map[string][]string{
			"a rollout":     {`kube_deployment_status_replicas_available{namespace="longshore",deployment="longshore-webhook"} 2x5 0x3 2x60`},
			"one replica":   {`kube_deployment_status_replicas_available{namespace="longshore",deployment="longshore-webhook"} 1x60`},
			"another chart": {`kube_deployment_status_replicas_available{namespace="longshore",deployment="web"} 0x60`},
		},
	},
	"LongshorePolicyQuarantined": {
		failing: []string{`longshore_policy_quarantined{policy="zones",extension_point="PodMutation"} 0x5 1x60`, `longshore_policy_fallen_back{policy="zones",extension_point="PodMutation"} 0x65`},
		summary: "Policy zones keeps failing and is not called at PodMutation.", after: 7 * time.Minute,
		healthy: map[string][]string{
			"the previous version decides": {`longshore_policy_quarantined{policy="zones",extension_point="PodMutation"} 1x60`, `longshore_policy_fallen_back{policy="zones",extension_point="PodMutation"} 1x60`},
			"it is called":                 {`longshore_policy_quarantined{policy="zones",extension_point="PodMutation"} 0x60`, `longshore_policy_fallen_back{policy="zones",extension_point="PodMutation"} 0x60`},
		},
	},
	"LongshorePolicyFallenBack": {
		failing: []string{`longshore_policy_fallen_back{policy="zones",extension_point="PodMutation"} 0x5 1x60`},
		summary: "The previous version of policy zones decides at PodMutation.", after: 7 * time.Minute,
		healthy: map[string][]string{"the present version decides": {`longshore_policy_fallen_back{policy="zones",extension_point="PodMutation"} 0x60`}},
	},
	"LongshorePolicyHeld": {
		failing: []string{`longshore_policy_refused{policy="zones",reason="ModuleNotFound",instead="held"} 1x60`},
		summary: "No version of policy zones, which was in force, can be used since a component started (ModuleNotFound).", after: time.Minute,
		healthy: map[string][]string{"the previous version decides": {`longshore_policy_refused{policy="zones",reason="ModuleNotFound",instead="previous"} 1x60`}},
	},
	"LongshorePolicyRefused": {
		failing: []string{`longshore_policy_refused{policy="zones",reason="ModuleNotFound",instead="previous"} 1x60`},
		summary: "The present version of policy zones is not used (ModuleNotFound).", after: 5 * time.Minute,
		healthy: map[string][]string{
			"the critical alert has it":    {`longshore_policy_refused{policy="zones",reason="ModuleNotFound",instead="held"} 1x60`},
			"the module comes a bit later": {`longshore_policy_refused{policy="zones",reason="ModuleNotFound",instead="absent"} 1x2 stale`},
		},
	},
	"LongshorePolicyFailing": {
		failing: []string{`longshore_policy_errors_total{policy="zones",extension_point="PodMutation",class="Trap"} 0+1x60`},
		summary: "Policy zones gives no valid answers at PodMutation (Trap).", after: 11 * time.Minute,
		healthy: map[string][]string{
			"an error":                  {`longshore_policy_errors_total{policy="zones",extension_point="PodMutation",class="Trap"} 0x5 1x60`},
			"the critical alert has it": {`longshore_policy_errors_total{policy="zones",extension_point="PodMutation",class="Quarantined"} 0+1x60`},
		},
	},
	"LongshorePolicyNearItsFuelLimit": {
		failing: fuel("2e+06"),
		summary: "Calls of policy zones at PodMutation use more than half of the default fuel limit.", after: 16 * time.Minute,
		healthy: map[string][]string{"half of it": fuel("1e+06"), "no calls": {`longshore_policy_call_fuel_ticks_bucket{policy="zones",extension_point="PodMutation",le="+Inf"} 0x60`}},
	},
	"LongshorePolicySlow": {
		failing: durations("0.5"),
		summary: "Policy zones takes more than 50 ms at PodMutation.", after: 16 * time.Minute,
		healthy: map[string][]string{"in time": durations("0.05")},
	},
	"LongshorePolicyVersionsDiffer": {
		failing: []string{`longshore_policy_module_info{policy="zones",digest="a",pod="manager"} 1x60`, `longshore_policy_module_info{policy="zones",digest="b",pod="webhook"} 1x60`},
		summary: "Components run different versions of policy zones.", after: 10 * time.Minute,
		healthy: map[string][]string{
			"an update":   {`longshore_policy_module_info{policy="zones",digest="a",pod="manager"} 1x5 stale`, `longshore_policy_module_info{policy="zones",digest="b",pod="webhook"} 1x60`},
			"the same":    {`longshore_policy_module_info{policy="zones",digest="a",pod="manager"} 1x60`, `longshore_policy_module_info{policy="zones",digest="a",pod="webhook"} 1x60`},
			"two of them": {`longshore_policy_module_info{policy="zones",digest="a",pod="manager"} 1x60`, `longshore_policy_module_info{policy="costs",digest="b",pod="manager"} 1x60`},
		},
	},
	"LongshoreQuotaNearlyUsed": {
		failing: []string{`longshore_quota_used_ratio{resource="cpu"} 0.5x5 0.95x60`},
		summary: "A consumer uses more than 90 % of the cpu of a Quota.", after: 21 * time.Minute,
		healthy: map[string][]string{"room": {`longshore_quota_used_ratio{resource="cpu"} 0.9x60`}, "a peak": {`longshore_quota_used_ratio{resource="cpu"} 0.5x5 1x10 0.5x60`}},
	},
	"LongshoreQuotasFailing": {
		failing: []string{`controller_runtime_reconcile_errors_total{controller="quota"} 0+1x60`},
		summary: "Controller quota cannot write the status of Quotas.", after: 16 * time.Minute,
		healthy: map[string][]string{"conflicts of one moment": {`controller_runtime_reconcile_errors_total{controller="quota"} 0x5 4x60`}},
	},
	"LongshoreReflectionFailing": {
		failing: []string{`longshore_reflection_operations_total{resource="pod",operation="create",result="error"} 0+1x60`},
		summary: "Requests create of the reflection of pod keep failing.", after: 16 * time.Minute,
		healthy: map[string][]string{
			"errors of one moment": {`longshore_reflection_operations_total{resource="pod",operation="create",result="error"} 0x5 9x60`},
			"no errors":            {`longshore_reflection_operations_total{resource="pod",operation="create",result="ok"} 0+9x60`},
		},
	},
	"LongshoreReflectionSlow": {
		failing: lag("+Inf"),
		summary: "Changes of pod (local_to_remote) take more than 30 s.", after: 16 * time.Minute,
		healthy: map[string][]string{"some seconds": lag("5"), "almost": lag("30")},
	},
	"LongshoreReflectionPanics": {
		failing: []string{`longshore_reflection_panics_total{resource="pod"} 0x10 1x110`},
		summary: "A decision about pod ended in a panic.", after: 11 * time.Minute,
		healthy: map[string][]string{"none": {`longshore_reflection_panics_total{resource="pod"} 0x110`}, "long ago": {`longshore_reflection_panics_total{resource="pod"} 1x110`}},
	},
	"LongshoreReplicationFailing": {
		failing: []string{`controller_runtime_reconcile_errors_total{controller="replication"} 0+1x60`},
		summary: "Controller replication keeps failing.", after: 16 * time.Minute,
		healthy: map[string][]string{"errors of other controllers": {`controller_runtime_reconcile_errors_total{controller="quota"} 0+1x60`}},
	},
}

// fuel returns the series of calls that all fall into a bucket.
func fuel(bucket string) []string {
	return histogram(`longshore_policy_call_fuel_ticks_bucket{policy="zones",extension_point="PodMutation",`, bucket,
		"1000", "10000", "50000", "100000", "200000", "500000", "1e+06", "2e+06", "1e+07", "+Inf")
}

func durations(bucket string) []string {
	return histogram(`longshore_policy_call_duration_seconds_bucket{policy="zones",extension_point="PodMutation",`, bucket,
		"1e-05", "5e-05", "0.0001", "0.0005", "0.001", "0.005", "0.01", "0.05", "0.5", "+Inf")
}

func lag(bucket string) []string {
	return histogram(`longshore_reflection_lag_seconds_bucket{resource="pod",direction="local_to_remote",`, bucket,
		"0.001", "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "5", "30", "+Inf")
}

func histogram(name, bucket string, bounds ...string) []string {
	var series []string
	count := " 0x60"
	for _, bound := range bounds {
		if bound == bucket {
			count = " 0+100x60"
		}
		series = append(series, name+`le="`+bound+`"}`+count)
	}
	return series
}

// Each alert fires over series in which that fails which it is for, and over no others.
func TestEachAlertFires(t *testing.T) {
	of := rules(t)
	for name := range cases {
		require.Contains(t, of, name, "there is no such alert")
	}
	for name, r := range of {
		t.Run(name, func(t *testing.T) {
			tc, ok := cases[name]
			require.True(t, ok, "no case shows that the alert fires")
			assert.Equal(t, map[string]time.Duration{tc.summary: tc.after}, r.fired(t, tc.failing))
			require.NotEmpty(t, tc.healthy)
			for title, series := range tc.healthy {
				assert.Empty(t, r.fired(t, series), title)
			}
		})
	}
}
