package status

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output/outputtest"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

func quantities(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func podSpec(node string) corev1.PodSpec {
	return corev1.PodSpec{NodeName: node, Containers: []corev1.Container{
		{Name: "a", Resources: corev1.ResourceRequirements{Requests: quantities("cpu", "250m", "memory", "128Mi")}},
		{Name: "b", Resources: corev1.ResourceRequirements{Requests: quantities("cpu", "250m", "memory", "128Mi")}},
	}}
}

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func readyPod(name, node string) corev1.Pod {
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: podSpec(node),
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{ready}},
	}
}

// healthyCluster is rome, which uses milan and serves oslo.
func healthyCluster() *snapshot {
	s := &snapshot{id: "rome", host: "https://rome.example:6443", namespace: "longshore", now: now}
	s.deployments.Items = []appsv1.Deployment{{
		ObjectMeta: metav1.ObjectMeta{Name: "longshore-manager", Namespace: "longshore"}, Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](2)},
		Status: appsv1.DeploymentStatus{AvailableReplicas: 2},
	}}
	ready := []liqocorev1beta1.Condition{{Status: liqocorev1beta1.ConditionStatusReady}}
	fc := func(id liqocorev1beta1.ClusterID, role liqocorev1beta1.RoleType, offloading bool) liqocorev1beta1.ForeignCluster {
		fc := liqocorev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: string(id)}, Spec: liqocorev1beta1.ForeignClusterSpec{ClusterID: id}}
		fc.Status.Role, fc.Status.APIServerURL = role, "https://"+string(id)+".example:6443"
		fc.Status.TenantNamespace = liqocorev1beta1.TenantNamespaceType{Local: "liqo-tenant-" + string(id), Remote: "liqo-tenant-rome"}
		fc.Status.Modules.Authentication = liqocorev1beta1.Module{Enabled: true, Conditions: ready}
		fc.Status.Modules.Offloading = liqocorev1beta1.Module{Enabled: offloading, Conditions: ready}
		fc.Status.Conditions = []liqocorev1beta1.Condition{{Type: liqocorev1beta1.APIServerStatusCondition, Status: liqocorev1beta1.ConditionStatusEstablished}}
		return fc
	}
	s.foreignClusters.Items = []liqocorev1beta1.ForeignCluster{fc("oslo", liqocorev1beta1.ConsumerRole, false), fc("milan", liqocorev1beta1.ProviderRole, true)}
	tenant := authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "oslo", Namespace: "liqo-tenant-oslo"}, Spec: authv1beta1.TenantSpec{ClusterID: "oslo", TenantCondition: authv1beta1.TenantConditionActive}}
	tenant.Status.Conditions = []metav1.Condition{{Type: authv1beta1.TenantReady, Status: metav1.ConditionTrue}}
	s.tenants.Items = []authv1beta1.Tenant{tenant}
	s.identities.Items = []authv1beta1.Identity{{
		ObjectMeta: metav1.ObjectMeta{Name: "controlplane-milan", Namespace: "liqo-tenant-milan"}, Spec: authv1beta1.IdentitySpec{ClusterID: "milan"},
		Status: authv1beta1.IdentityStatus{KubeconfigSecretRef: &corev1.LocalObjectReference{Name: "kubeconfig-controlplane-milan"}},
	}}
	accepted := []authv1beta1.ResourceSliceCondition{
		{Type: authv1beta1.ResourceSliceConditionTypeAuthentication, Status: authv1beta1.ResourceSliceConditionAccepted},
		{Type: authv1beta1.ResourceSliceConditionTypeResources, Status: authv1beta1.ResourceSliceConditionAccepted},
	}
	slice := func(name, peer string, labels map[string]string) authv1beta1.ResourceSlice {
		slice := authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "liqo-tenant-" + peer, Labels: labels}}
		slice.Labels["liqo.io/remote-cluster-id"] = peer
		slice.Status = authv1beta1.ResourceSliceStatus{Conditions: accepted, Resources: quantities("cpu", "8", "memory", "16Gi", "pods", "110")}
		return slice
	}
	own := slice("milan", "milan", authentication.ReplicationLabels("milan"))
	served := slice("rome", "oslo", map[string]string{"liqo.io/replicated": "true", "liqo.io/originID": "oslo"})
	served.Spec.ConsumerClusterID = ptr.To[liqocorev1beta1.ClusterID]("oslo")
	s.slices.Items = []authv1beta1.ResourceSlice{own, served}
	vn := offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: "milan", Namespace: "liqo-tenant-milan"}}
	vn.Spec = offloadingv1beta1.VirtualNodeSpec{
		ClusterID: "milan", KubeconfigSecretRef: &corev1.LocalObjectReference{Name: "kubeconfig-resourceslice-milan"},
		ResourceQuota: corev1.ResourceQuotaSpec{Hard: own.Status.Resources},
	}
	vn.Status.Conditions = []offloadingv1beta1.VirtualNodeCondition{{Type: offloadingv1beta1.VirtualKubeletConditionType, Status: offloadingv1beta1.RunningConditionStatusType}}
	s.virtualNodes.Items = []offloadingv1beta1.VirtualNode{vn}
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan", Labels: map[string]string{"liqo.io/type": "virtual-node", "liqo.io/remote-cluster-id": "milan"}}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	s.nodes.Items = []corev1.Node{node}
	s.pods = []corev1.Pod{
		{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now)}, Spec: podSpec("milan")}, readyPod("web", "milan"),
		{Spec: podSpec("milan"), Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}, {Spec: podSpec("other")},
	}
	shadow := offloadingv1beta1.ShadowPod{Spec: offloadingv1beta1.ShadowPodSpec{Pod: podSpec("")}}
	shadow.Labels = map[string]string{"offloading.liqo.io/origin": "oslo", "offloading.liqo.io/nodename": "rome"}
	foreign := shadow
	foreign.Labels = map[string]string{"offloading.liqo.io/origin": "oslo", "offloading.liqo.io/nodename": "rome", "liqo.io/creator-user": "another"}
	s.shadowPods.Items = []offloadingv1beta1.ShadowPod{shadow, foreign}
	nso := offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Name: "offloading", Namespace: "shop"}}
	nso.Spec.PodOffloadingStrategy, nso.Status.RemoteNamespaceName, nso.Status.OffloadingPhase = "LocalAndRemote", "shop-rome", "Ready"
	s.offloadings.Items = []offloadingv1beta1.NamespaceOffloading{nso}
	policy := policyv1alpha1.OffloadingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "mirror"}}
	policy.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Bound"}}
	s.policies.Items = []policyv1alpha1.OffloadingPolicy{policy}
	s.reflections.Items = []policyv1alpha1.ResourceReflection{{
		ObjectMeta: metav1.ObjectMeta{Name: "certificate.cert-manager.io"},
		Status:     policyv1alpha1.ResourceReflectionStatus{VirtualNodes: []policyv1alpha1.VirtualNodeReflection{{Name: "virtual-kubelet/milan", Reflected: true}}},
	}}
	return s
}

// sickCluster is the same with something wrong in each part.
func sickCluster() *snapshot {
	s := healthyCluster()
	s.deployments.Items[0].Status.AvailableReplicas = 0
	s.foreignClusters.Items[1].Status.Conditions[0] = liqocorev1beta1.Condition{
		Type: liqocorev1beta1.APIServerStatusCondition, Status: liqocorev1beta1.ConditionStatusError, Reason: "APIServerNotReady", Message: "dial tcp: i/o timeout",
	}
	s.foreignClusters.Items[1].Status.Modules.Offloading.Conditions = []liqocorev1beta1.Condition{{Status: liqocorev1beta1.ConditionStatusNotReady}}
	s.tenants.Items[0].Status.Conditions[0] = metav1.Condition{Type: authv1beta1.TenantReady, Status: metav1.ConditionFalse, Reason: "InvalidSignature", Message: "The signature does not match the nonce."}
	s.identities.Items[0].Status.KubeconfigSecretRef = nil
	s.slices.Items[0].Status.Conditions = []authv1beta1.ResourceSliceCondition{
		s.slices.Items[0].Status.Conditions[0],
		{Type: authv1beta1.ResourceSliceConditionTypeResources, Status: authv1beta1.ResourceSliceConditionDenied, Reason: "DefaultResourceSliceClassDisabled", Message: "The default class is disabled in this cluster. Ask its administrators for a class."},
	}
	s.slices.Items[1].Annotations = map[string]string{"liqo.io/cordon": "true"}
	s.nodes.Items[0].Status.Conditions[0] = corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "ProviderUnreachable", Message: "The provider does not answer."}
	s.offloadings.Items[0].Status.OffloadingPhase = "NoClusterSelected"
	s.policies.Items[0].Status.Conditions[0] = metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Quarantined", Message: "0/2 components decide by generation 1. webhook/a: Quarantined at PodMutation."}
	s.pods = append(s.pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "big"}, Spec: podSpec(""), Status: corev1.PodStatus{Phase: corev1.PodPending}})
	s.claims.Items = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data-database-0", Namespace: "shop", Labels: map[string]string{"storage.longshore.dev/cluster": "milan", "storage.longshore.dev/remote-claim": "Lost"}}}}
	s.reflections.Items[0].Status.VirtualNodes = []policyv1alpha1.VirtualNodeReflection{
		{Name: "virtual-kubelet/milan", Reason: "NotServedByProvider", Message: "Cluster milan does not serve kind Certificate of cert-manager.io/v1. Its operator must install the CustomResourceDefinition."},
		{Name: "virtual-kubelet/milan-2", SchemaDifferences: "spec.keystores does not exist in the provider."},
	}
	return s
}

// longNames replaces the names of a cluster by the longest ones.
func longNames(s *snapshot) *snapshot {
	for i := range s.slices.Items {
		s.slices.Items[i].Name = outputtest.Long
	}
	for i := range s.virtualNodes.Items {
		s.virtualNodes.Items[i].Name = outputtest.Long
	}
	for i := range s.offloadings.Items {
		s.offloadings.Items[i].Namespace, s.offloadings.Items[i].Status.RemoteNamespaceName = outputtest.Long, outputtest.Long
	}
	return s
}

func TestStatusFitsATerminal(t *testing.T) {
	for name, cluster := range map[string]*snapshot{"status": sickCluster(), "status-long": longNames(healthyCluster())} {
		outputtest.Table(t, name, false, func(w io.Writer, style output.Style) error { return build(cluster).text(w, style) })
	}
	outputtest.Table(t, "info-long", false, func(w io.Writer, style output.Style) error {
		report := build(longNames(healthyCluster()))
		peer, err := report.of("milan")
		require.NoError(t, err)
		peer.APIServer = "https://" + outputtest.Long + ".example.com:6443"
		return report.details(w, style, peer)
	})
}

func TestOutputs(t *testing.T) {
	for name, tc := range map[string]struct {
		cluster  *snapshot
		peer     string
		terminal bool
	}{
		"healthy":       {cluster: healthyCluster()},
		"problems":      {cluster: sickCluster()},
		"terminal":      {cluster: sickCluster(), terminal: true},
		"empty":         {cluster: &snapshot{id: "rome", host: "https://rome.example:6443", namespace: "longshore"}},
		"peer":          {cluster: healthyCluster(), peer: "milan"},
		"peer-problems": {cluster: sickCluster(), peer: "oslo"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			report, style := build(tc.cluster), output.Colored(tc.terminal)
			if tc.peer == "" {
				require.NoError(t, report.text(&out, style))
			} else {
				peer, err := report.of(tc.peer)
				require.NoError(t, err)
				require.NoError(t, report.details(&out, style, peer))
			}
			outputtest.Golden(t, name+".txt", out.String())
			assert.Equal(t, tc.terminal, strings.Contains(out.String(), "\033["))
			for line := range strings.Lines(out.String()) {
				assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), width+len("\033[31m\033[0m"), line)
				if !tc.terminal {
					assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), width, line)
				}
			}
		})
	}
	var out bytes.Buffer
	require.NoError(t, output.Print(&out, output.JSON, build(healthyCluster()), nil))
	assert.Contains(t, out.String(), `"problems": []`, "a program reads a list")
	_, err := build(healthyCluster()).of("paris")
	code, message := output.ExitCode(err)
	assert.Equal(t, output.CodeUsage, code)
	assert.Contains(t, message, `cluster rome has no peer "paris"`)
}

// A provider deletes namespaces of consumers, in which pods may run on until their grace period ends.
func TestNamespacesThatAProviderDeletesAreProblems(t *testing.T) {
	ending := map[string]offloadingv1beta1.RemoteNamespaceStatus{
		"bar": {RemoteNamespace: "bar-oslo", Phase: offloadingv1beta1.MappingAccepted, Message: "It is created again."}, "inn": {RemoteNamespace: "inn-oslo", Phase: offloadingv1beta1.MappingAccepted},
		"shop": {RemoteNamespace: "shop-oslo", Phase: offloadingv1beta1.MappingTerminating},
	}
	s := healthyCluster()
	s.namespaceMaps.Items = []offloadingv1beta1.NamespaceMap{{Status: offloadingv1beta1.NamespaceMapStatus{CurrentMapping: ending}}}
	assert.Empty(t, build(s).Problems, "of this cluster, as a consumer: the NamespaceOffloading says it")

	s.namespaceMaps.Items[0].Labels = map[string]string{"liqo.io/replicated": "true", "liqo.io/originID": "oslo"}
	found := build(s).Problems
	require.Len(t, found, 2)
	assert.Equal(t, Problem{
		Peer: "oslo", Object: "namespace bar-oslo", Actor: "rome", Message: "It is being deleted, and pods that are left in it run until they end. It is created again.",
		Action: "If it stays, look at what is left, and delete it: kubectl get pods -n bar-oslo",
	}, found[0])
	assert.Equal(t, "namespace shop-oslo", found[1].Object)
}

// What ends, or was left by slices that are gone, takes a part of the grant, too.
func TestAGrantPaysForPodsWhoseSlicesAreGone(t *testing.T) {
	s := healthyCluster()
	s.quotas.Items = []offloadingv1beta1.Quota{
		{Spec: offloadingv1beta1.QuotaSpec{User: authentication.SliceSubject("oslo", "rome").User}, Status: offloadingv1beta1.QuotaStatus{
			Ending: quantities("cpu", "1", "pods", "1"), Abandoned: quantities("cpu", "2", "pods", "2"),
		}},
		{Spec: offloadingv1beta1.QuotaSpec{User: "another"}, Status: offloadingv1beta1.QuotaStatus{Ending: quantities("cpu", "7")}},
	}
	var used corev1.ResourceList
	for _, peer := range build(s).Peers {
		for _, slice := range peer.Slices {
			if slice.Action == "Providing" {
				used = slice.Used
			}
		}
	}
	assert.Equal(t, "3500m", used.Cpu().String())
	assert.Equal(t, "4", used.Pods().String())
}

func TestProblemsOfManyObjectsAreOneLine(t *testing.T) {
	of := func(object, message string) Problem {
		return Problem{Peer: "oslo", Object: object, Message: message, Actor: "oslo", Action: "Repair " + object + "."}
	}
	many := []Problem{of("a", "It is denied."), of("b", "It is denied."), of("c", "It is denied."), of("d", "It is denied."), of("e", "It is denied."), of("f", "It is not decided.")}
	assert.Equal(t, []Problem{
		{Peer: "oslo", Object: "a, b, c and 2 more", Message: "It is denied.", Actor: "oslo", Action: "Repair a."}, many[5],
	}, joined(many))
	assert.Equal(t, []Problem{{Peer: "oslo", Object: "a, b", Message: "It is denied.", Actor: "oslo", Action: "Repair a."}}, joined(many[:2]))
	assert.Empty(t, joined(nil))
}

func TestProblemsNameWhoMustAct(t *testing.T) {
	const credentials, resources = authv1beta1.ResourceSliceConditionTypeAuthentication, authv1beta1.ResourceSliceConditionTypeResources
	tenant := func(reason string) func(*snapshot) {
		return func(s *snapshot) {
			s.tenants.Items[0].Status.Conditions[0] = metav1.Condition{Type: authv1beta1.TenantReady, Status: metav1.ConditionFalse, Reason: reason, Message: "Message."}
		}
	}
	deny := func(slice int, kind authv1beta1.ResourceSliceConditionType) func(*snapshot) {
		return func(s *snapshot) {
			s.slices.Items[slice].Status.Conditions = []authv1beta1.ResourceSliceCondition{
				{Type: credentials, Status: authv1beta1.ResourceSliceConditionAccepted}, {Type: resources, Status: authv1beta1.ResourceSliceConditionAccepted},
			}
			for i := range s.slices.Items[slice].Status.Conditions {
				if c := &s.slices.Items[slice].Status.Conditions[i]; c.Type == kind {
					c.Status, c.Reason, c.Message = authv1beta1.ResourceSliceConditionDenied, "Denied", "Message."
				}
			}
		}
	}
	checkProblems(t, map[string]problemRow{
		"nothing is wrong":                {change: func(*snapshot) {}},
		"a replica is missing":            {func(s *snapshot) { s.deployments.Items[0].Status.AvailableReplicas = 1 }, "rome", "1 of 2 replicas are available."},
		"a consumer signed another nonce": {tenant("InvalidSignature"), "oslo", "InvalidSignature: Message."},
		"this cluster has no address":     {tenant("APIServerAddressUnknown"), "rome", "APIServerAddressUnknown: Message."},
		"a certificate is being signed":   {tenant("CertificatePending"), "rome", "CertificatePending: Message."},
		"a drained consumer":              {func(s *snapshot) { tenant("Drained")(s); s.tenants.Items[0].Spec.TenantCondition = "Drained" }, "", ""},
		"the provider denied a slice":     {deny(0, resources), "milan", "The provider denied Resources: Denied: Message."},
		"the provider denied credentials": {deny(0, credentials), "milan", "The provider denied Authentication: Denied: Message."},
		"the provider grants less than nothing": {func(s *snapshot) {
			s.slices.Items[0].Status.Resources = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("-5")}
		}, "milan", "The provider grants what cannot be used: cpu=-5: amounts cannot be negative"},
		"this cluster denied a slice":     {deny(1, resources), "", ""},
		"this cluster denied credentials": {deny(1, credentials), "oslo", "Authentication is denied: Denied: Message."},
		"the provider has not decided":    {func(s *snapshot) { s.slices.Items[0].Status.Conditions = nil }, "milan", "The provider has not decided about Authentication."},
		"this cluster has not decided":    {func(s *snapshot) { s.slices.Items[1].Status.Conditions = nil }, "rome", "Authentication is not decided."},
		"pods of earlier slices hold a part": {func(s *snapshot) {
			s.quotas.Items = []offloadingv1beta1.Quota{{
				Spec:   offloadingv1beta1.QuotaSpec{User: authentication.SliceSubject("oslo", "rome").User},
				Status: offloadingv1beta1.QuotaStatus{Abandoned: quantities("pods", "3", "cpu", "1500m")},
			}}
		}, "oslo", "Pods of slices that are gone hold a part of what is granted, until they have ended: cpu 1500m, pods 3."},
		"a virtual kubelet does not run": {func(s *snapshot) { s.virtualNodes.Items[0].Status.Conditions = nil }, "rome", "Its virtual kubelet does not run."},
		"a Node is missing":              {func(s *snapshot) { s.nodes.Items = nil }, "rome", "Its Node does not exist."},
		"a VirtualNode without a Node":   {func(s *snapshot) { s.nodes.Items = nil; s.virtualNodes.Items[0].Spec.CreateNode = new(bool) }, "", ""},
		"a virtual node is drained": {func(s *snapshot) {
			s.virtualNodes.Items[0].DeletionTimestamp = &metav1.Time{}
			*s.virtualNodes.Items[0].DeletionTimestamp = metav1.Now()
		}, "", "It is being deleted: its pods are drained."},
		"a namespace selects no virtual node": {func(s *snapshot) { s.offloadings.Items[0].Status.OffloadingPhase = "NoClusterSelected" }, "rome", "It is offloaded, and no virtual node is selected."},
		"a namespace is withdrawn": {func(s *snapshot) {
			s.offloadings.Items[0].Status.OffloadingPhase = "Terminating"
			s.offloadings.Items[0].Status.RemoteNamespacesConditions = map[string]offloadingv1beta1.RemoteNamespaceConditions{"milan": {
				{Type: offloadingv1beta1.NamespaceReady, Status: corev1.ConditionFalse, Reason: "Terminating", Message: "It waits."},
			}}
		}, "", "It is offloaded until its remote namespaces are gone. milan: Terminating: It waits."},
		"a network that is not used is missing": {func(s *snapshot) {
			s.foreignClusters.Items[0].Status.Modules.Networking.Conditions = []liqocorev1beta1.Condition{{Status: "NotReady"}}
		}, "", ""},
		"a network that is used": {func(s *snapshot) {
			s.foreignClusters.Items[0].Status.Modules.Networking = liqocorev1beta1.Module{Enabled: true, Conditions: []liqocorev1beta1.Condition{{Type: "NetworkConnectionStatus", Status: "Error", Reason: "ConnectionError"}}}
		}, "rome", "NetworkConnectionStatus is Error: ConnectionError"},
	})
}
