package planner_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/longshore-dev/longshore/builtin-policies/defaults"
	"github.com/longshore-dev/longshore/builtin-policies/native"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/pod"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/planner"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/policytest"
	"github.com/longshore-dev/longshore/host/policysource/plan"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// policies returns chains with the default policies and the given bindings.
func policies(tb testing.TB, more ...chain.Binding) *chain.Chains {
	tb.Helper()
	builtin := policytest.Native(policyv1alpha1.BuiltInDefault, defaults.Manifest(), native.Functions())
	chains := chain.New(chain.Options{ReservedKey: remote.ReservedKey})
	require.NoError(tb, chains.Swap(append(plan.Implicit(builtin, nil), more...)))
	return chains
}

// denying is a policy that denies all pods at a moment.
func denying(moment contract.Moment) chain.Binding {
	manifest := contract.Manifest{Name: "gate", Version: "1", Contracts: []string{contract.Version}, Points: []contract.PointManifest{
		{Point: contract.PodMutation, Moments: []contract.Moment{moment}, Reads: []string{"/object/metadata/name"}},
	}}
	order := 10
	return chain.Binding{Name: "gate", Point: contract.PodMutation, Order: &order, Policy: policytest.Native("gate", manifest, map[contract.Point]native.Function{
		contract.PodMutation: func(request contract.Request) (contract.Response, error) {
			return contract.Response{Version: request.Version, Deny: &contract.Denial{Reason: "NotToday", Message: "pods stay at home"}}, nil
		},
	})}
}

func virtualNode(name string, change ...func(*offloadingv1beta1.VirtualNode)) offloadingv1beta1.VirtualNode {
	vn := offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-" + name, Name: name}}
	vn.Spec.ClusterID = liqocorev1beta1.ClusterID(name)
	vn.Spec.ResourceQuota.Hard = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("10"),
	}
	for _, f := range change {
		f(&vn)
	}
	return vn
}

func offloading(strategy offloadingv1beta1.PodOffloadingStrategyType) *offloadingv1beta1.NamespaceOffloading {
	return &offloadingv1beta1.NamespaceOffloading{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: offloadingv1beta1.NamespaceOffloadingName},
		Spec:       offloadingv1beta1.NamespaceOffloadingSpec{PodOffloadingStrategy: strategy, NamespaceMappingStrategy: offloadingv1beta1.DefaultNameMappingStrategyType},
	}
}

// shop are the facts of a cluster with two providers and one offloaded namespace.
func shop() planner.Facts {
	inventory := planner.NewInventory(true)
	inventory.Add("ConfigMap", metav1.ObjectMeta{Namespace: "shop", Name: "settings"})
	inventory.Add("ConfigMap", metav1.ObjectMeta{Namespace: "shop", Name: "private", Annotations: map[string]string{offloadingv1beta1.SkipReflectionAnnotation: "true"}})
	inventory.Add("Secret", metav1.ObjectMeta{Namespace: "shop", Name: "token", Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}})
	for name, class := range map[string]string{"data": "disk", "remote": "liqo", "none": "gold"} {
		inventory.AddClaim(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class}})
	}
	for name, cluster := range map[string]string{"in-milan": "milan", "in-turin": "turin", "here": ""} {
		inventory.AddClaim(&corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{offloadingv1beta1.StorageClusterLabel: cluster}},
			Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pvc-" + name},
		})
	}
	inventory.AddStorageClass(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "disk"}, Provisioner: "disk.example.com"})
	inventory.AddStorageClass(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "liqo"}, Provisioner: offloadingv1beta1.StorageProvisioner})
	inventory.AddService(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}})
	inventory.AddService(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "db"}}})
	return planner.Facts{
		HomeClusterID: "rome", RuntimeClassName: "liqo",
		Offloadings:  map[string]*offloadingv1beta1.NamespaceOffloading{"shop": offloading(offloadingv1beta1.RemotePodOffloadingStrategyType)},
		VirtualNodes: []offloadingv1beta1.VirtualNode{virtualNode("turin"), virtualNode("milan")},
		Inventory:    inventory,
	}
}

func web(change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
	}
	for _, f := range change {
		f(pod)
	}
	return pod
}

func predict(t *testing.T, facts planner.Facts, object runtime.Object, more ...chain.Binding) *planner.Plan {
	t.Helper()
	p, err := planner.New(facts, policies(t, more...))
	require.NoError(t, err)
	template, ok := planner.TemplateOf(object, "default")
	require.True(t, ok)
	planned, err := p.Plan(t.Context(), template)
	require.NoError(t, err)
	return planned
}

func TestAPodThatIsOffloaded(t *testing.T) {
	planned := predict(t, shop(), web(func(pod *corev1.Pod) {
		pod.Spec.ServiceAccountName = "shop"
		pod.Labels["offloading.liqo.io/mine"] = "x"
		pod.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}}
	}))
	assert.Equal(t, planner.Offloadable, planned.Result)
	assert.Nil(t, planned.Reason)
	assert.Equal(t, []string{"milan", "turin"}, planned.Fitting())
	require.NotNil(t, planned.AdmittedPod)
	assert.Contains(t, planned.AdmittedPod.Spec.Tolerations, corev1.Toleration{Key: offloadingv1beta1.VirtualNodeTaintKey, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute})
	require.NotNil(t, planned.ShadowPod)
	assert.Equal(t, "shop-rome", planned.ShadowPod.Namespace)
	assert.Equal(t, "milan", planned.ShadowPod.Labels[offloadingv1beta1.DestinationLabel])
	assert.Empty(t, planned.ShadowPod.Spec.Pod.ServiceAccountName)
	var whats []string
	for _, c := range planned.Changes {
		whats = append(whats, c.What)
		assert.NotEqual(t, c.Policy == "", c.Why == "", "%s names a policy or a reason", c.What)
	}
	assert.Equal(t, []string{
		"ensure /spec/tolerations", "require /spec/affinity/nodeAffinity",
		"drop /spec/serviceAccountName", "add /spec/automountServiceAccountToken", "drop /spec/affinity", "change /spec/tolerations",
		"drop /metadata/labels[offloading.liqo.io/mine]", "add /metadata/labels[offloading.liqo.io/destination]",
		"add /metadata/labels[offloading.liqo.io/nodename]", "add /metadata/labels[offloading.liqo.io/origin]",
		"add /metadata/annotations[longshore.dev/local-pod-uid]",
	}, whats)
	assert.Equal(t, []planner.Follow{
		{Kind: "ConfigMap", Name: "settings", State: planner.Reflected}, {Kind: "Service", Name: "web", State: planner.Reflected},
	}, planned.Follows)
}

func configMap(name string, optional bool) corev1.VolumeSource {
	return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Optional: &optional}}
}

// noneButLocal removes the virtual nodes and lets pods run on local nodes.
func noneButLocal(f *planner.Facts) {
	f.Offloadings["shop"].Spec.PodOffloadingStrategy = offloadingv1beta1.LocalAndRemotePodOffloadingStrategyType
	f.VirtualNodes = nil
}

// mapped reports a mapping of the namespace in both providers.
func mapped(phase offloadingv1beta1.MappingPhase, message string) func(*planner.Facts) {
	return func(f *planner.Facts) {
		for _, provider := range []string{"milan", "turin"} {
			nm := offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{liqocorev1beta1.RemoteIDLabel: provider}}}
			nm.Status.CurrentMapping = map[string]offloadingv1beta1.RemoteNamespaceStatus{"shop": {RemoteNamespace: "shop-rome", Phase: phase, Message: message}}
			f.NamespaceMaps = append(f.NamespaceMaps, nm)
		}
	}
}

func TestWhyAPodDoesNotRunInAProvider(t *testing.T) {
	strategy := func(s offloadingv1beta1.PodOffloadingStrategyType) func(*planner.Facts) {
		return func(f *planner.Facts) { f.Offloadings["shop"].Spec.PodOffloadingStrategy = s }
	}
	needs := func(source corev1.VolumeSource) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: source}} }
	}
	for name, tc := range map[string]struct {
		facts   func(*planner.Facts)
		pod     func(*corev1.Pod)
		binding []chain.Binding
		want    planner.Result
		stage   planner.Stage
		reason  string
		// why is the verdict about node milan; follow is the first object that the pod needs.
		why    string
		follow planner.Follow
	}{
		"the namespace is not offloaded":      {facts: func(f *planner.Facts) { f.Offloadings = nil }, want: planner.Local, stage: planner.Scheduling, reason: planner.ReasonNamespaceNotOffloaded},
		"the strategy is Local":               {facts: strategy(offloadingv1beta1.LocalPodOffloadingStrategyType), want: planner.Local, stage: planner.Scheduling, reason: planner.ReasonStrategyLocal},
		"a policy denies it at admission":     {binding: []chain.Binding{denying(contract.MomentAdmission)}, want: planner.Refused, stage: planner.Admission, reason: planner.ReasonAdmissionDenied},
		"an unknown strategy":                 {facts: strategy("Anywhere"), want: planner.Refused, stage: planner.Admission, reason: planner.ReasonWebhookFailed},
		"there is no virtual node":            {facts: func(f *planner.Facts) { f.VirtualNodes = nil }, want: planner.Pending, stage: planner.Scheduling, reason: planner.ReasonNoVirtualNode},
		"no virtual node, and local nodes":    {facts: noneButLocal, want: planner.Local, stage: planner.Scheduling, reason: planner.ReasonNoVirtualNode},
		"a scheduling gate":                   {pod: func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "quota"}} }, want: planner.Pending, stage: planner.Scheduling, reason: corev1.PodReasonSchedulingGated},
		"a node selector":                     {pod: func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} }, want: planner.Pending, stage: planner.Scheduling, reason: corev1.PodReasonUnschedulable, why: "its labels do not match the pod's node selector and affinity"},
		"the same, and local nodes":           {facts: strategy(offloadingv1beta1.LocalAndRemotePodOffloadingStrategyType), pod: func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} }, want: planner.Local, stage: planner.Scheduling, reason: corev1.PodReasonUnschedulable, why: "its labels do not match the pod's node selector and affinity"},
		"a pinned node":                       {pod: func(p *corev1.Pod) { p.Spec.Affinity = pinned("palermo") }, want: planner.Pending, stage: planner.Scheduling, reason: corev1.PodReasonUnschedulable, why: "its labels do not match the pod's node selector and affinity"},
		"a taint of the nodes":                {facts: func(f *planner.Facts) { taint(f, corev1.Taint{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}) }, want: planner.Pending, stage: planner.Scheduling, reason: corev1.PodReasonUnschedulable, why: "taint gpu:NoSchedule is not tolerated"},
		"a preference of the nodes":           {facts: func(f *planner.Facts) { taint(f, corev1.Taint{Key: "gpu", Effect: corev1.TaintEffectPreferNoSchedule}) }, want: planner.Offloadable},
		"nodes that were not ready":           {facts: taintedNotReady(corev1.TaintEffectNoExecute), want: planner.Offloadable},
		"nodes that are not ready":            {facts: taintedNotReady(corev1.TaintEffectNoSchedule), want: planner.Pending, stage: planner.Scheduling, reason: corev1.PodReasonUnschedulable, why: "the node has the taint node.kubernetes.io/not-ready:NoSchedule"},
		"more cpu than a node has":            {pod: requests("cpu", "5"), want: planner.Pending, stage: planner.Scheduling, reason: corev1.PodReasonUnschedulable, why: "insufficient cpu: 5 requested, 4 left"},
		"more cpu than is left":               {facts: func(f *planner.Facts) { used(f, "cpu", "3") }, pod: requests("cpu", "2"), want: planner.Pending, stage: planner.Scheduling, reason: corev1.PodReasonUnschedulable, why: "insufficient cpu: 2 requested, 1 left"},
		"no pod is left":                      {facts: func(f *planner.Facts) { used(f, "pods", "10") }, want: planner.Pending, stage: planner.Scheduling, reason: corev1.PodReasonUnschedulable, why: "too many pods: spec.resourceQuota.hard.pods leaves 0"},
		"a resource that no node has":         {pod: requests("example.com/gpu", "1"), want: planner.Pending, stage: planner.Scheduling, reason: corev1.PodReasonUnschedulable, why: "insufficient example.com/gpu: 1 requested, 0 left"},
		"resources are ignored":               {facts: func(f *planner.Facts) { f.IgnoreResources = true }, pod: requests("cpu", "500"), want: planner.Offloadable},
		"the provider creates no namespace":   {facts: mapped(offloadingv1beta1.MappingCreationLoopBackOff, "quota"), want: planner.Pending, stage: planner.Mapping, reason: offloadingv1beta1.OffloadingBackOffReason, why: `cluster "milan" did not create namespace "shop-rome": CreationLoopBackOff quota`},
		"the namespace exists":                {facts: mapped(offloadingv1beta1.MappingAccepted, ""), want: planner.Offloadable},
		"the provider deletes the namespace":  {facts: mapped(offloadingv1beta1.MappingAccepted, "it is deleted"), want: planner.Pending, stage: planner.Mapping, reason: offloadingv1beta1.OffloadingBackOffReason, why: `cluster "milan" deletes namespace "shop-rome": it is deleted`},
		"no provider has a NamespaceMap":      {facts: func(f *planner.Facts) { f.NamespaceMaps = []offloadingv1beta1.NamespaceMap{} }, want: planner.Pending, stage: planner.Mapping, reason: offloadingv1beta1.OffloadingBackOffReason, why: `cluster "milan" has no NamespaceMap: the operator must look at the conditions of VirtualNode "milan"`},
		"a policy denies it on the way":       {binding: []chain.Binding{denying(contract.MomentOffload)}, want: planner.Pending, stage: planner.Forging, reason: pod.ReasonDenied},
		"a ConfigMap is missing":              {pod: needs(configMap("none", false)), want: planner.Pending, stage: planner.Running, reason: planner.ReasonMissingObject, follow: planner.Follow{Kind: "ConfigMap", Name: "none", State: planner.Missing}},
		"an optional ConfigMap is missing":    {pod: needs(configMap("none", true)), want: planner.Offloadable},
		"the root CA":                         {pod: needs(configMap("kube-root-ca.crt", false)), want: planner.Offloadable},
		"a ConfigMap stays":                   {pod: needs(configMap("private", false)), want: planner.Pending, stage: planner.Running, reason: planner.ReasonObjectNotReflected, follow: planner.Follow{Kind: "ConfigMap", Name: "private", State: planner.NotReflected}},
		"a Secret is missing":                 {pod: needs(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "none"}}), want: planner.Pending, stage: planner.Running, reason: planner.ReasonMissingObject, follow: planner.Follow{Kind: "Secret", Name: "none", State: planner.Missing}},
		"a Secret is a token":                 {pod: needs(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "token"}}), want: planner.Pending, stage: planner.Running, reason: planner.ReasonObjectNotReflected, follow: planner.Follow{Kind: "Secret", Name: "token", State: planner.NotReflected}},
		"scheduling comes before the objects": {facts: func(f *planner.Facts) { f.VirtualNodes = nil }, pod: needs(configMap("none", false)), want: planner.Pending, stage: planner.Scheduling, reason: planner.ReasonNoVirtualNode},
	} {
		t.Run(name, func(t *testing.T) {
			facts, pod := shop(), web()
			if tc.facts != nil {
				tc.facts(&facts)
			}
			if tc.pod != nil {
				tc.pod(pod)
			}
			planned := predict(t, facts, pod, tc.binding...)
			assert.Equal(t, tc.want, planned.Result, "%+v", planned.Reason)
			if tc.reason == "" {
				assert.Nil(t, planned.Reason)
				assert.NotNil(t, planned.ShadowPod)
				return
			}
			require.NotNil(t, planned.Reason)
			assert.Equal(t, tc.stage, planned.Reason.Stage)
			assert.Equal(t, tc.reason, planned.Reason.Reason)
			checkCause(t, planned, tc.why, tc.follow)
		})
	}
}

// checkCause compares the verdict about the first node, and the first object that the pod needs, unless
// they are zero.
func checkCause(t *testing.T, planned *planner.Plan, why string, follow planner.Follow) {
	t.Helper()
	if why != "" {
		assert.Equal(t, why, planned.Nodes[0].Reason)
		assert.Contains(t, planned.Reason.Message, why, "the message has the verdict")
	}
	if follow != (planner.Follow{}) {
		first := planned.Follows[0]
		got := planner.Follow{Kind: first.Kind, Name: first.Name, State: first.State, Optional: first.Optional}
		assert.Equal(t, follow, got)
	}
}

func pinned(name string) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{name}}}}},
	}}}
}

func taint(f *planner.Facts, taint corev1.Taint) {
	for i := range f.VirtualNodes {
		f.VirtualNodes[i].Spec.Taints = append(f.VirtualNodes[i].Spec.Taints, taint)
	}
}

func taintedNotReady(effect corev1.TaintEffect) func(*planner.Facts) {
	return func(f *planner.Facts) { taint(f, corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: effect}) }
}

func used(f *planner.Facts, name corev1.ResourceName, quantity string) {
	f.Requested = map[string]corev1.ResourceList{}
	for _, node := range []string{"milan", "turin"} {
		f.Requested[node] = corev1.ResourceList{name: resource.MustParse(quantity)}
	}
}

func requests(name corev1.ResourceName, quantity string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{name: resource.MustParse(quantity)}
	}
}

func TestAPodWithoutARequiredFieldIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		want   []string
	}{
		"no container":                     {func(pod *corev1.Pod) { pod.Spec.Containers = nil }, []string{"spec.containers: Required value"}},
		"a container without image":        {func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = "" }, []string{"spec.containers[0].image: Required value"}},
		"an init container without a name": {func(pod *corev1.Pod) { pod.Spec.InitContainers = []corev1.Container{{Image: "web:1"}} }, []string{"spec.initContainers[0].name: Required value"}},
		"all of them": {func(pod *corev1.Pod) {
			pod.Spec.InitContainers, pod.Spec.Containers = []corev1.Container{{}}, nil
		}, []string{"spec.containers: Required value", "spec.initContainers[0].name: Required value", "spec.initContainers[0].image: Required value"}},
	} {
		t.Run(name, func(t *testing.T) {
			planned := predict(t, shop(), web(c.change))
			require.NotNil(t, planned.Reason)
			assert.Equal(t, planner.Refused, planned.Result)
			assert.Equal(t, planner.ReasonInvalid, planned.Reason.Reason)
			for _, want := range c.want {
				assert.Contains(t, planned.Reason.Message, want)
			}
			assert.Nil(t, planned.ShadowPod)
		})
	}
}

func TestTheShadowPodIsThatOfTheSelectedNode(t *testing.T) {
	facts := shop()
	facts.VirtualNodes[0].Spec.OffloadingPatch = &offloadingv1beta1.OffloadingPatch{NodeSelector: map[string]string{"pool": "guests"}}
	facts.NodeName = "turin"
	planned := predict(t, facts, web())
	require.NotNil(t, planned.ShadowPod)
	assert.Equal(t, map[string]string{"pool": "guests"}, planned.ShadowPod.Spec.Pod.NodeSelector)
	assert.Contains(t, planned.Changes, planner.Change{Stage: planner.Forging, What: "merge /spec/nodeSelector[pool]", Policy: "default-offloadingpatch"})

	facts.NodeName = "palermo"
	_, err := planner.New(facts, policies(t))
	assert.EqualError(t, err, `there is no virtual node "palermo"`)
}

func TestFactsAreNotAltered(t *testing.T) {
	facts, pod := shop(), web()
	before := pod.DeepCopy()
	nodes := facts.VirtualNodes[0].DeepCopy()
	first, second := predict(t, facts, pod), predict(t, facts, pod)
	assert.Equal(t, first, second)
	assert.Equal(t, before, pod)
	assert.Equal(t, *nodes, facts.VirtualNodes[0])
}

func TestTemplatesOfAllKinds(t *testing.T) {
	two := int32(2)
	meta := metav1.ObjectMeta{Name: "web", Namespace: "shop"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}, Spec: web().Spec}
	for name, tc := range map[string]struct {
		object   runtime.Object
		kind     string
		pod      string
		replicas int32
	}{
		"a Pod":         {web(), "Pod", "web", 0},
		"a Deployment":  {&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: &two, Template: template}}, "Deployment", "web", 2},
		"a ReplicaSet":  {&appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Template: template}}, "ReplicaSet", "web", 1},
		"a StatefulSet": {&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{ServiceName: "web", Replicas: &two, Template: template}}, "StatefulSet", "web-0", 2},
		"a DaemonSet":   {&appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Template: template}}, "DaemonSet", "web", 0},
		"a Job":         {&batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Parallelism: &two, Template: template}}, "Job", "web", 2},
		"a CronJob":     {&batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template}}}}, "CronJob", "web", 1},
		"a controller":  {&corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Template: &template}}, "ReplicationController", "web", 1},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := planner.TemplateOf(tc.object, "default")
			require.True(t, ok)
			assert.Equal(t, tc.kind, got.Kind)
			assert.Equal(t, "shop", got.Pod.Namespace)
			assert.Equal(t, tc.pod, got.Pod.Name)
			assert.Equal(t, "web", got.Pod.Labels["app"])
			if tc.replicas == 0 {
				assert.Nil(t, got.Replicas)
			} else if assert.NotNil(t, got.Replicas) {
				assert.Equal(t, tc.replicas, *got.Replicas)
			}
			want := planner.Offloadable
			if tc.kind == "DaemonSet" {
				want = planner.Pending // Its pods are for the nodes of this cluster, which the strategy excludes.
			}
			assert.Equal(t, want, predict(t, shop(), tc.object).Result)
		})
	}
	_, ok := planner.TemplateOf(&corev1.ConfigMap{}, "default")
	assert.False(t, ok)
}

// claim gives a pod a volume of a claim.
func claim(name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}}}
	}
}

func offersStorage(f *planner.Facts) {
	for i := range f.VirtualNodes {
		f.VirtualNodes[i].Spec.StorageClasses = []authv1beta1.StorageType{{StorageClassName: "fast"}}
	}
}

func TestClaimsFollowByTheirClassAndVolume(t *testing.T) {
	for name, tc := range map[string]struct{ claim, want string }{
		"another storage class":        {"data", `storage class "disk" has volumes in this cluster only`},
		"a class that does not exist":  {"none", `storage class "gold" does not exist`},
		"a volume in another provider": {"in-turin", `its volume is in cluster "turin"`},
		"a volume in this cluster":     {"here", "its volume is in this cluster"},
		"a node that is chosen":        {"chosen", `its volume is being created for node "worker"`},
		"a virtual class":              {"remote", ""},
		"a volume on the virtual node": {"in-milan", ""},
	} {
		t.Run(name, func(t *testing.T) {
			facts := shop()
			offersStorage(&facts)
			virtual := "liqo"
			facts.Inventory.AddClaim(&corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "chosen", Annotations: map[string]string{"volume.kubernetes.io/selected-node": "worker"}},
				Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: &virtual},
			})
			plan := predict(t, facts, web(claim(tc.claim)))
			if tc.want == "" {
				assert.Equal(t, planner.Offloadable, plan.Result)
				return
			}
			assert.Equal(t, planner.Pending, plan.Result)
			assert.Equal(t, planner.Running, plan.Reason.Stage)
			assert.Equal(t, planner.ReasonObjectNotReflected, plan.Reason.Reason)
			assert.Contains(t, plan.Follows[0].Why, tc.want)
		})
	}
	assert.Contains(t, predict(t, shop(), web(claim("remote"))).Reason.Message, `virtual node "milan" offers no storage class`)
}

func TestAClaimWithoutAClassGetsTheNewestDefaultClass(t *testing.T) {
	facts := shop()
	offersStorage(&facts)
	isDefault := map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
	created := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 20 {
		class := &storagev1.StorageClass{
			ObjectMeta:  metav1.ObjectMeta{Name: fmt.Sprintf("default-%d", i), Annotations: isDefault, CreationTimestamp: metav1.NewTime(created.Add(time.Duration(i) * time.Hour))},
			Provisioner: "disk.example.com",
		}
		if i == 19 {
			class.Provisioner = offloadingv1beta1.StorageProvisioner
		}
		facts.Inventory.AddStorageClass(class)
	}
	facts.Inventory.AddClaim(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "unnamed"}})
	assert.Equal(t, planner.Offloadable, predict(t, facts, web(claim("unnamed"))).Result)
}

func TestAStatefulSetNeedsItsClaims(t *testing.T) {
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "shop"},
		Spec: appsv1.StatefulSetSpec{
			ServiceName: "db", Template: corev1.PodTemplateSpec{Spec: web().Spec},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}},
		},
	}
	planned := predict(t, shop(), set)
	assert.Equal(t, planner.Pending, planned.Result)
	require.Len(t, planned.Follows, 1)
	assert.Equal(t, planner.Follow{Kind: "PersistentVolumeClaim", Name: "data-db-0", State: planner.NotReflected, Why: planned.Follows[0].Why}, planned.Follows[0])
	assert.Equal(t, "db-0", planned.ShadowPod.Spec.Pod.Hostname)
	assert.Contains(t, planned.Follows[0].Why, "names no storage class")

	facts, class := shop(), "liqo"
	offersStorage(&facts)
	set.Spec.VolumeClaimTemplates[0].Spec.StorageClassName = &class
	assert.Equal(t, planner.Offloadable, predict(t, facts, set).Result)
}

func TestAnEphemeralVolumeFollowsByItsClass(t *testing.T) {
	facts, class := shop(), "liqo"
	offersStorage(&facts)
	pod := web(func(pod *corev1.Pod) {
		pod.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
			VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class}},
		}}}}
	})
	planned := predict(t, facts, pod)
	assert.Equal(t, planner.Offloadable, planned.Result)
	assert.Contains(t, planned.Follows, planner.Follow{Kind: "PersistentVolumeClaim", Name: pod.Name + "-scratch", State: planner.Reflected})
}

func TestMissingObjectsComeFirst(t *testing.T) {
	optional := true
	env := func(name string, optional *bool) corev1.EnvFromSource {
		return corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Optional: optional}}
	}
	planned := predict(t, shop(), web(func(pod *corev1.Pod) {
		pod.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{env("maybe", &optional), env("token", nil), env("required", nil), env("required", &optional)}
	}))
	var names []string
	for _, f := range planned.Follows {
		names = append(names, f.Name)
	}
	assert.Equal(t, []string{"required", "maybe", "token", "web"}, names)
	assert.Equal(t, planner.ReasonMissingObject, planned.Reason.Reason)
	assert.Contains(t, planned.Reason.Message, `Secret "required" is missing`)
}
