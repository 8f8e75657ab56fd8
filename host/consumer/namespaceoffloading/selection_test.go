package namespaceoffloading

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

func virtualNode(name, cluster string, labels map[string]string) offloadingv1beta1.VirtualNode {
	vn := offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: name}}
	vn.Spec.ClusterID, vn.Spec.Labels = liqocorev1beta1.ClusterID(cluster), labels
	return vn
}

func TestRemoteName(t *testing.T) {
	cases := map[string]struct {
		strategy offloadingv1beta1.NamespaceMappingStrategyType
		want     string
	}{
		"the same name":             {offloadingv1beta1.EnforceSameNameMappingStrategyType, "shop"},
		"the default name":          {offloadingv1beta1.DefaultNameMappingStrategyType, "shop-rome"},
		"the selected name":         {offloadingv1beta1.SelectedNameMappingStrategyType, "chosen"},
		"an unknown one is default": {"Other", "shop-rome"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			spec := &offloadingv1beta1.NamespaceOffloadingSpec{NamespaceMappingStrategy: tc.strategy, RemoteNamespaceName: "chosen"}
			assert.Equal(t, tc.want, RemoteName("shop", spec, "rome"))
		})
	}
}

func TestSelected(t *testing.T) {
	in := func(key string, values ...string) corev1.NodeSelector {
		return corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}},
		}}}
	}
	eu, us := map[string]string{"region": "eu"}, map[string]string{"region": "us"}
	cases := map[string]struct {
		selector corev1.NodeSelector
		nodes    []offloadingv1beta1.VirtualNode
		real     map[string]*corev1.Node
		want     map[string]bool
	}{
		"no terms": {
			nodes: []offloadingv1beta1.VirtualNode{virtualNode("a", "milan", nil), virtualNode("b", "oslo", nil)},
			want:  map[string]bool{"milan": true, "oslo": true}},
		"labels of the VirtualNode count before its Node exists": {
			selector: in("region", "eu"),
			nodes:    []offloadingv1beta1.VirtualNode{virtualNode("a", "milan", eu), virtualNode("b", "oslo", us)},
			want:     map[string]bool{"milan": true, "oslo": false}},
		"labels of the Node count when it exists": {
			selector: in("region", "eu"),
			nodes:    []offloadingv1beta1.VirtualNode{virtualNode("a", "milan", us)},
			real:     map[string]*corev1.Node{"a": {ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: eu}}},
			want:     map[string]bool{"milan": true}},
		"one of two virtual nodes matches (T10)": {
			selector: in("region", "eu"),
			nodes:    []offloadingv1beta1.VirtualNode{virtualNode("a", "milan", eu), virtualNode("b", "milan", us)},
			want:     map[string]bool{"milan": true}},
		"the type label before the Node exists (T9)": {
			selector: in("liqo.io/type", "virtual-node"),
			nodes:    []offloadingv1beta1.VirtualNode{virtualNode("a", "milan", nil)},
			want:     map[string]bool{"milan": true}},
		"storage is available only with a class (T9)": {
			selector: in("storage.liqo.io/available", "true"),
			nodes: []offloadingv1beta1.VirtualNode{virtualNode("a", "milan", nil), func() offloadingv1beta1.VirtualNode {
				vn := virtualNode("b", "oslo", nil)
				vn.Spec.StorageClasses = []authv1beta1.StorageType{{StorageClassName: "fast"}}
				return vn
			}()},
			want: map[string]bool{"milan": false, "oslo": true}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Selected(&tc.selector, tc.nodes, tc.real)
			require.NoError(t, err)
			assert.Equal(t, tc.want, got)
		})
	}
	t.Run("all labels of the Node count before it exists (T9)", func(t *testing.T) {
		vn := virtualNode("a", "milan", map[string]string{"liqo.io/type": "forged"})
		vn.Spec.Template = &offloadingv1beta1.DeploymentTemplate{}
		vn.Spec.Template.Spec.Template.Spec.Containers = []corev1.Container{{Args: []string{"--nodename=a", "--node-extra-labels=region=eu,zone="}}}
		for _, selector := range []corev1.NodeSelector{
			in("kubernetes.io/arch", "amd64"), in("kubernetes.io/os", "linux"), in("type", "virtual-kubelet"), in("liqo.io/type", "virtual-node"),
			in("region", "eu"), in("zone", ""),
		} {
			got, err := Selected(&selector, []offloadingv1beta1.VirtualNode{vn}, nil)
			require.NoError(t, err)
			assert.Equal(t, map[string]bool{"milan": true}, got, "%v", selector)
		}
	})
	broken := corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "region", Operator: "Is"}},
	}}}
	_, err := Selected(&broken, nil, nil)
	assert.ErrorContains(t, err, "spec.clusterSelector is invalid")
}

func TestStatus(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	nm := func(name string, desired bool, phase offloadingv1beta1.MappingPhase) *offloadingv1beta1.NamespaceMap {
		m := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if desired {
			m.Spec.DesiredMapping = map[string]string{"shop": "shop-rome"}
		}
		if phase != "" {
			m.Status.CurrentMapping = map[string]offloadingv1beta1.RemoteNamespaceStatus{"shop": {RemoteNamespace: "shop-rome", Phase: phase}}
		}
		return m
	}
	ending := func(name string) *offloadingv1beta1.NamespaceMap {
		m := nm(name, true, offloadingv1beta1.MappingAccepted)
		m.Status.CurrentMapping["shop"] = offloadingv1beta1.RemoteNamespaceStatus{RemoteNamespace: "shop-rome", Phase: offloadingv1beta1.MappingAccepted, Message: "is being deleted"}
		return m
	}
	elsewhere := func(name string) *offloadingv1beta1.NamespaceMap {
		m := nm(name, true, offloadingv1beta1.MappingAccepted)
		m.Status.CurrentMapping["shop"] = offloadingv1beta1.RemoteNamespaceStatus{RemoteNamespace: "kube-system", Phase: offloadingv1beta1.MappingAccepted}
		return m
	}
	const accepted, failed = offloadingv1beta1.MappingAccepted, offloadingv1beta1.MappingCreationLoopBackOff
	cases := map[string]struct {
		maps     []*offloadingv1beta1.NamespaceMap
		missing  []string
		deleting bool
		want     offloadingv1beta1.OffloadingPhaseType
		entries  int
	}{
		"no cluster":                      {want: "NoClusterSelected"},
		"no cluster selected":             {maps: []*offloadingv1beta1.NamespaceMap{nm("milan", false, "")}, want: "NoClusterSelected", entries: 1},
		"all accepted":                    {maps: []*offloadingv1beta1.NamespaceMap{nm("milan", true, accepted)}, want: "Ready", entries: 1},
		"no response yet":                 {maps: []*offloadingv1beta1.NamespaceMap{nm("milan", true, "")}, want: "InProgress", entries: 1},
		"all failed":                      {maps: []*offloadingv1beta1.NamespaceMap{nm("milan", true, failed)}, want: "AllFailed", entries: 1},
		"one of two failed":               {maps: []*offloadingv1beta1.NamespaceMap{nm("milan", true, failed), nm("oslo", true, accepted)}, want: "SomeFailed", entries: 2},
		"the provider deletes it":         {maps: []*offloadingv1beta1.NamespaceMap{ending("milan")}, want: "AllFailed", entries: 1},
		"one of two is deleted":           {maps: []*offloadingv1beta1.NamespaceMap{ending("milan"), nm("oslo", true, accepted)}, want: "SomeFailed", entries: 2},
		"another namespace than is asked": {maps: []*offloadingv1beta1.NamespaceMap{elsewhere("milan")}, want: "AllFailed", entries: 1},
		"selected, no NamespaceMap yet":   {missing: []string{"milan"}, want: "InProgress", entries: 1},
		"one accepted, one not there yet": {maps: []*offloadingv1beta1.NamespaceMap{nm("milan", true, accepted)}, missing: []string{"oslo"}, want: "InProgress", entries: 2},
		"deleting, still mapped":          {maps: []*offloadingv1beta1.NamespaceMap{nm("milan", false, "Terminating")}, deleting: true, want: "Terminating", entries: 1},
		"deleting, not mapped any more":   {maps: []*offloadingv1beta1.NamespaceMap{nm("milan", false, "")}, deleting: true, want: "Terminating"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			nso := &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Generation: 3}}
			if tc.deleting {
				nso.DeletionTimestamp = &now
			}
			byCluster := map[string]*offloadingv1beta1.NamespaceMap{}
			for _, m := range tc.maps {
				byCluster[m.Name] = m
			}
			got := Status(nso, "shop-rome", byCluster, tc.missing, nil, now)
			assert.Equal(t, tc.want, got.OffloadingPhase)
			assert.Len(t, got.RemoteNamespacesConditions, tc.entries)
			assert.Equal(t, int64(3), got.ObservedGeneration)

			nso.Status = got
			later := metav1.NewTime(now.Add(time.Hour))
			assert.Equal(t, got, Status(nso, "shop-rome", byCluster, tc.missing, nil, later), "an unchanged condition keeps its time")
		})
	}
}

func TestReadyConditionOfAnotherNamespace(t *testing.T) {
	nm := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Name: "milan"}, Spec: offloadingv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{"shop": "shop-rome"}}}
	nm.Status.CurrentMapping = map[string]offloadingv1beta1.RemoteNamespaceStatus{"shop": {RemoteNamespace: "kube-system", Phase: offloadingv1beta1.MappingAccepted}}
	c := readyCondition(nm, "shop", nil, metav1.Now())
	assert.Equal(t, corev1.ConditionFalse, c.Status)
	assert.Equal(t, "AnotherNamespace", c.Reason)
	assert.Contains(t, c.Message, `reports namespace "kube-system" instead of "shop-rome"`)
}

func TestReadyConditionOfANamespaceThatTheProviderDeletes(t *testing.T) {
	nm := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}
	nm.Spec.DesiredMapping = map[string]string{"shop": "shop-rome"}
	nm.Status.CurrentMapping = map[string]offloadingv1beta1.RemoteNamespaceStatus{
		"shop": {RemoteNamespace: "shop-rome", Phase: offloadingv1beta1.MappingAccepted, Message: "Ask for it again." + strings.Repeat("x", 1_600_000)},
	}
	nso := &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}}
	conditions := Status(nso, "shop-rome", map[string]*offloadingv1beta1.NamespaceMap{"milan": nm}, nil, nil, metav1.Now()).RemoteNamespacesConditions["milan"]
	require.Len(t, conditions, 2)
	assert.Equal(t, corev1.ConditionFalse, conditions[1].Status)
	assert.Equal(t, "RemoteNamespaceTerminating", conditions[1].Reason)
	assert.Contains(t, conditions[1].Message, `Cluster milan deletes namespace "shop-rome", and all pods in it, although it is requested. It says: Ask for it again.`)
	assert.Less(t, len(conditions[1].Message), 1200)
}

func TestReadyConditionOfAFailedMapping(t *testing.T) {
	type entry = offloadingv1beta1.RemoteNamespaceStatus
	const accepted, failed = offloadingv1beta1.MappingAccepted, offloadingv1beta1.MappingCreationLoopBackOff
	const inProvider = `look at the events of NamespaceMap "milan"`
	for name, tc := range map[string]struct {
		desired map[string]string
		current map[string]entry
		want    string
	}{
		"the cause is not known": {
			map[string]string{"shop": "taken"}, map[string]entry{"shop": {RemoteNamespace: "taken", Phase: failed}}, inProvider},
		"the provider reports the cause": {
			map[string]string{"shop": "kube-dns"}, map[string]entry{"shop": {RemoteNamespace: "kube-dns", Phase: failed, Message: "the name is reserved"}},
			`The provider did not create namespace "kube-dns": the name is reserved`},
		"the provider reports a text that no object has room for": {
			map[string]string{"shop": "kube-dns"}, map[string]entry{"shop": {RemoteNamespace: "kube-dns", Phase: failed, Message: strings.Repeat("x", 1_600_000)}},
			`The provider did not create namespace "kube-dns": ` + strings.Repeat("x", 1021) + "…"},
		"another namespace has the name": {
			map[string]string{"shop": "taken", "store": "taken"},
			map[string]entry{"shop": {RemoteNamespace: "taken", Phase: failed}, "store": {RemoteNamespace: "taken", Phase: accepted}},
			`Namespace "store" of this cluster has the remote name "taken"`},
		"another namespace asks for it first": {
			map[string]string{"shop": "taken", "bar": "taken"},
			map[string]entry{"shop": {RemoteNamespace: "taken", Phase: failed}, "bar": {RemoteNamespace: "taken", Phase: failed}},
			`Namespace "bar" of this cluster has the remote name "taken"`},
		"another namespace asks for it later": {
			map[string]string{"shop": "taken", "store": "taken"},
			map[string]entry{"shop": {RemoteNamespace: "taken", Phase: failed}, "store": {RemoteNamespace: "taken", Phase: failed}}, inProvider},
		"another namespace has another name": {
			map[string]string{"shop": "taken", "store": "other"},
			map[string]entry{"shop": {RemoteNamespace: "taken", Phase: failed}, "store": {RemoteNamespace: "other", Phase: accepted}}, inProvider},
		"another namespace had the name, and asks for another one": {
			map[string]string{"shop": "taken", "store": "other"},
			map[string]entry{"shop": {RemoteNamespace: "taken", Phase: failed}, "store": {RemoteNamespace: "taken", Phase: accepted}},
			inProvider},
	} {
		t.Run(name, func(t *testing.T) {
			nm := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}
			nm.Spec.DesiredMapping, nm.Status.CurrentMapping = tc.desired, tc.current
			nso := &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}}
			status := Status(nso, "taken", map[string]*offloadingv1beta1.NamespaceMap{"milan": nm}, nil, nil, metav1.Now())
			conditions := status.RemoteNamespacesConditions["milan"]
			require.Len(t, conditions, 2)
			assert.Equal(t, "CreationLoopBackOff", conditions[1].Reason)
			assert.Contains(t, conditions[1].Message, tc.want)
		})
	}
}
