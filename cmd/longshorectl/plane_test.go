package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/cmd/longshorectl/explain"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/cmd/longshorectl/policy"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/planner"
	"github.com/longshore-dev/longshore/host/policy/module"
	"github.com/longshore-dev/longshore/host/policy/policytest"
)

const (
	soon = 2 * time.Minute
	tick = 25 * time.Millisecond
)

// run is a command in a pipe.
func run(ctx context.Context, args ...string) (out string, code int, message string) {
	var buffer bytes.Buffer
	getenv := func(string) string { return "" }
	command := explain.Command(&buffer, getenv)
	if args[0] == "policy" {
		command = policy.Command(policy.Streams{In: strings.NewReader(""), Out: &buffer, Getenv: getenv})
	}
	command.SilenceErrors, command.SilenceUsage = true, true
	command.SetArgs(args[1:])
	code, message = output.ExitCode(command.ExecuteContext(ctx))
	return buffer.String(), code, message
}

// connect installs the kinds that the commands read.
func connect(t *testing.T) (client.Client, string) {
	t.Helper()
	cluster := planetest.ForTest(t, "rome", planetest.Own)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, offloadingv1beta1.AddToScheme, policyv1alpha1.AddToScheme,
	} {
		require.NoError(t, add(scheme))
	}
	c, err := client.New(cluster.RESTConfig(), client.Options{Scheme: scheme})
	require.NoError(t, err)
	_, code, message := run(t.Context(), "policy", "inspect", "--policy", "mirror", "--kubeconfig", cluster.Kubeconfig())
	assert.Equal(t, output.CodeFailed, code)
	assert.Contains(t, message, "does not know this kind: is Longshore installed there")
	planetest.InstallCRDs(t, cluster.RESTConfig(), "shadowpods", "namespacemaps", "namespaceoffloadings", "virtualnodes", "offloadingpolicies", "policycomponents")
	return c, cluster.Kubeconfig()
}

func create(t *testing.T, c client.Client, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		require.NoError(t, c.Create(t.Context(), object))
	}
}

func namespace(name string) client.Object {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func TestCommandsThatReadAClusterAgainstARealAPIServer(t *testing.T) {
	c, kubeconfig := connect(t)
	create(t, c, namespace("shop"), namespace("shop-rome"), namespace("longshore"))
	t.Run("explain", func(t *testing.T) { explains(t, c, kubeconfig) })
	t.Run("policy inspect --policy", func(t *testing.T) { inspects(t, c, kubeconfig) })
	t.Run("policy push --apply", func(t *testing.T) { pushes(t, c, kubeconfig) })
}

func explains(t *testing.T, c client.Client, kubeconfig string) {
	t.Helper()
	annotated := func(namespace, text string) metav1.ObjectMeta {
		meta := metav1.ObjectMeta{Namespace: namespace, Name: "web", Annotations: map[string]string{}}
		if text != "" {
			meta.Annotations[policyv1alpha1.DecisionsAnnotation] = text
		}
		return meta
	}
	nm := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: "longshore", Name: "milan"}}
	pod := &corev1.Pod{ObjectMeta: annotated("shop", `[{"point":"PodMutation","policy":"default-podplacement","module":"builtin","digest":"0123456789ab","ops":["ensure /spec/tolerations"]}]`),
		Spec: corev1.PodSpec{AutomountServiceAccountToken: new(bool), Containers: []corev1.Container{{Name: "web", Image: "web:1"}}}}
	require.Eventually(t, func() bool { return c.Create(t.Context(), pod) == nil }, soon, tick, "the namespace gets its service account")
	create(t, c,
		&offloadingv1beta1.ShadowPod{ObjectMeta: annotated("shop-rome", `[{"part":"spec","point":"PodMutation","policy":"mirror","module":"m","digest":"111111111111","ops":["set /spec/containers[*]/image"]},`+
			`{"part":"metadata","point":"MetadataFilter","policy":"filter","module":"f","digest":"222222222222","ops":["remove /metadata/labels[team]","merge /metadata/labels[tenant]"],"ignored":true}]`),
			Spec: offloadingv1beta1.ShadowPodSpec{Pod: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}}}},
		&corev1.Secret{ObjectMeta: annotated("shop", ""), StringData: map[string]string{"password": "hunter2"}},
		&corev1.Service{ObjectMeta: annotated("shop-rome", "spoilt"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}},
		nm,
	)
	at := func(args ...string) (string, int, string) {
		return run(t.Context(), append(append([]string{"explain"}, args...), "--kubeconfig", kubeconfig)...)
	}
	out, code, message := at("pod/web", "-n", "shop")
	require.Equal(t, output.CodeDone, code, message)
	diagnosis, decisions, _ := strings.Cut(out, "\n\n")
	assert.Contains(t, diagnosis, `Does not run at Scheduling, NamespaceNotOffloaded: No node takes the pod, and namespace "shop" has no NamespaceOffloading`)
	assert.Contains(t, diagnosis, "Who can correct it: the operator of the consumer")
	assert.Equal(t, "pod shop/web\n"+
		"POINT        DECIDES  POLICY                MODULE   DIGEST        WHAT\n"+
		"PodMutation  all      default-podplacement  builtin  0123456789ab  ensure /spec/tolerations\n", decisions)

	out, code, message = at("pod", "web", "-n", "shop", "--remote-kubeconfig", kubeconfig)
	assert.Equal(t, output.CodeDone, code, message)
	assert.Contains(t, out, "Does not run at Scheduling, NamespaceNotOffloaded", "a pod is diagnosed although it has no remote object")
	assert.Contains(t, out, "\nshadowpod web (in the provider)\nThe object cannot be shown: namespace shop is not offloaded: no NamespaceMap maps it\n")
	_, code, message = at("secret/web", "-n", "shop", "--remote-kubeconfig", kubeconfig)
	assert.Equal(t, output.CodeFailed, code)
	assert.Contains(t, message, "namespace shop is not offloaded")
	nm.Status.CurrentMapping = map[string]offloadingv1beta1.RemoteNamespaceStatus{"shop": {RemoteNamespace: "shop-rome", Phase: offloadingv1beta1.MappingAccepted}}
	require.NoError(t, c.Status().Update(t.Context(), nm))
	out, code, message = at("pods", "web", "-n", "shop", "--remote-kubeconfig", kubeconfig)
	require.Equal(t, output.CodeDone, code, message)
	assert.Contains(t, out, "\nshadowpod shop-rome/web (in the provider)\n"+
		"POINT           DECIDES   POLICY  MODULE  DIGEST        WHAT\n"+
		"PodMutation     spec      mirror  m       111111111111  set /spec/containers[*]/image\n"+
		"MetadataFilter  metadata  filter  f       222222222222  remove /metadata/labels[team]\n"+
		"                                                        merge /metadata/labels[tenant]\n"+
		"                                                        failed, and was skipped\n")

	out, code, _ = at("pod/web", "-n", "shop", "--remote-kubeconfig", kubeconfig, "--remote-namespace", "shop-rome", "-o", "json")
	assert.Equal(t, output.CodeDone, code)
	var explanation explain.Explanation
	require.NoError(t, json.Unmarshal([]byte(out), &explanation))
	require.Len(t, explanation.Objects, 2)
	assert.True(t, explanation.Objects[1].Remote)
	assert.Equal(t, "filter", explanation.Objects[1].Decisions[1].Policy)

	out, code, _ = at("secret/web", "-n", "shop", "-o", "yaml")
	assert.Equal(t, output.CodeDone, code)
	assert.NotContains(t, out, "password")
	out, _, _ = at("secret/web", "-n", "shop")
	assert.Equal(t, "secret shop/web\nNo policy wrote or dropped anything.\n", out)

	offloadedPods(t, c, at)
	otherEnds(t, c, at)
	needs(t, c, at)
	severalProviders(t, c, at)
	fullNodes(t, c, at)
	wrongTargets(t, at, kubeconfig)
	create(t, c, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "longshore", Name: "id", Labels: map[string]string{"app.kubernetes.io/name": "clusterid-configmap"}}, Data: map[string]string{"CLUSTER_ID": "rome"}})
	for _, target := range []string{"pod/web", "secret/web"} {
		_, code, message = at(target, "-n", "shop", "--remote-kubeconfig", kubeconfig)
		assert.Equal(t, output.CodeUsage, code)
		assert.Contains(t, message, `is of cluster "rome" itself, not of its provider`)
	}
}

// wrongTargets are objects that cannot be explained.
func wrongTargets(t *testing.T, at func(...string) (string, int, string), kubeconfig string) {
	t.Helper()
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"svc/web", "-n", "shop-rome"}, output.CodeFailed, "was not annotated by Longshore"},
		{[]string{"pod/none", "-n", "shop"}, output.CodeFailed, "pods/none in namespace shop does not exist"},
		{[]string{"shadowpod/web", "-n", "shop-rome", "--remote-kubeconfig", kubeconfig}, output.CodeUsage, "in the provider already"},
		{[]string{"pod/web", "--context", "none"}, output.CodeUsage, `context "none" does not exist`},
	} {
		out, code, message := at(tc.args...)
		assert.Equal(t, tc.code, code, tc.args)
		assert.Contains(t, message, tc.want)
		assert.Empty(t, out)
	}
}

// offloadedPods are pods on a virtual node that do not run.
func offloadedPods(t *testing.T, c client.Client, at func(...string) (string, int, string)) {
	t.Helper()
	// Without the label of virtual nodes: nothing here keeps the Node ready.
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}
	stuck := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "stuck"}, Spec: corev1.PodSpec{
		NodeName: "milan", AutomountServiceAccountToken: new(bool), Containers: []corev1.Container{{Name: "web", Image: "web:1"}},
	}}
	create(t, c, node, stuck)
	explained := func(args ...string) explain.Explanation {
		out, code, message := at(append([]string{"pod/stuck", "-n", "shop", "-o", "json"}, args...)...)
		require.Equal(t, output.CodeDone, code, message)
		var e explain.Explanation
		require.NoError(t, json.Unmarshal([]byte(out), &e))
		require.NotNil(t, e.Diagnosis)
		return e
	}
	remote := []string{"--remote-context", "rome", "--remote-namespace", "shop-rome"}
	assert.Equal(t, "NotSent", explained(remote...).Diagnosis.Reason.Reason)

	shadow := &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "stuck"}, Spec: offloadingv1beta1.ShadowPodSpec{Pod: stuck.Spec}}
	create(t, c, shadow)
	assert.Equal(t, "NotCreated", explained(remote...).Diagnosis.Reason.Reason)
	shadow.Status = offloadingv1beta1.ShadowPodStatus{Phase: corev1.PodPending, Reason: offloadingv1beta1.FailedCreatePodReason, Message: "exceeded quota"}
	require.NoError(t, c.Status().Update(t.Context(), shadow))
	found := explained(remote...).Diagnosis
	assert.Equal(t, "exceeded quota", found.Message)
	assert.Equal(t, planner.ProviderOperator, found.Who)

	stuck.Status = corev1.PodStatus{Phase: corev1.PodPending, Reason: "OffloadingDenied", Message: "Not offloaded: NotToday"}
	require.NoError(t, c.Status().Update(t.Context(), stuck))
	found = explained().Diagnosis
	assert.Equal(t, planner.Forging, found.Stage)
	assert.Equal(t, "Not offloaded: NotToday", found.Message)
}

// otherEnds asks for ends in the provider that have another name, or are not there.
func otherEnds(t *testing.T, c client.Client, at func(...string) (string, int, string)) {
	t.Helper()
	out, code, message := at("secret/web", "-n", "shop", "--remote-context", "rome")
	require.Equal(t, output.CodeDone, code, message)
	assert.Contains(t, out, "\nsecret shop-rome/web (in the provider)\nThe object does not exist: it was not created yet, or it was deleted.\n")

	authority := []string{"cm/kube-root-ca.crt", "-n", "shop", "--remote-context", "rome"}
	require.Eventually(t, func() bool {
		out, code, message = at(authority...)
		return !strings.Contains(message, "kube-root-ca.crt in namespace shop does not exist")
	}, soon, tick)
	assert.Equal(t, output.CodeFailed, code)
	assert.Contains(t, message, "in the provider: namespace shop-rome has no label liqo.io/remote-cluster-id with the cluster ID of the consumer")
	there := namespace("shop-rome")
	require.NoError(t, c.Patch(t.Context(), there, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"liqo.io/remote-cluster-id":"rome"}}}`))))
	create(t, c, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "kube-root-ca.crt.rome"}})
	out, code, message = at(authority...)
	require.Equal(t, output.CodeDone, code, message)
	assert.Contains(t, out, "\nconfigmap shop-rome/kube-root-ca.crt.rome (in the provider)\nNo policy wrote or dropped anything.\n")
}

// asJSON returns the explanation of a pod that does not run.
func asJSON(t *testing.T, at func(...string) (string, int, string), args ...string) explain.Explanation {
	t.Helper()
	out, code, message := at(append(args, "-o", "json")...)
	require.Equal(t, output.CodeDone, code, message)
	var e explain.Explanation
	require.NoError(t, json.Unmarshal([]byte(out), &e))
	require.NotNil(t, e.Diagnosis)
	return e
}

// needs are pods that wait for an object, or for what only an event says.
func needs(t *testing.T, c client.Client, at func(...string) (string, int, string)) {
	t.Helper()
	waiting := func(name, secret string) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.PodSpec{
			NodeName: "milan", AutomountServiceAccountToken: new(bool), Containers: []corev1.Container{{Name: "web", Image: "web:1", EnvFrom: []corev1.EnvFromSource{{
				SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: secret}},
			}}}},
		}}
		create(t, c, pod)
		pod.Status = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "web", Image: "web:1", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}},
		}}}
		require.NoError(t, c.Status().Update(t.Context(), pod))
		return pod
	}
	waiting("without-secret", "none")
	found := asJSON(t, at, "pod/without-secret", "-n", "shop").Diagnosis
	assert.Equal(t, "MissingObject", found.Reason.Reason)
	assert.Contains(t, found.Message, `Secret "none" is missing in namespace "shop"`)
	assert.Equal(t, planner.Owner, found.Who)

	pod := waiting("without-volume", "web")
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "without-volume"}, Type: corev1.EventTypeWarning, Reason: "FailedMount", Message: "timed out",
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: pod.Name, UID: pod.UID}, LastTimestamp: metav1.Now(),
	}
	create(t, c, event)
	found = asJSON(t, at, "pod/without-volume", "-n", "shop").Diagnosis
	assert.Equal(t, "FailedMount", found.Reason.Reason)
	assert.Contains(t, found.Message, "timed out")

	shadow := &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: pod.Name}, Spec: offloadingv1beta1.ShadowPodSpec{Pod: pod.Spec}}
	remote := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: pod.Name}, Spec: *pod.Spec.DeepCopy()}
	create(t, c, shadow)
	require.Eventually(t, func() bool { return c.Create(t.Context(), remote) == nil }, soon, tick, "the namespace gets its service account")
	found = asJSON(t, at, "pod/without-volume", "-n", "shop", "--remote-context", "rome", "--remote-namespace", "shop-rome").Diagnosis
	assert.Equal(t, "ObjectNotReflected", found.Reason.Reason)
	assert.Contains(t, found.Message, `Secret "web" is not in the provider`)
	assert.Equal(t, planner.Operator, found.Who)
}

// severalProviders is a namespace that is offloaded to two providers: the pod's node selects one.
func severalProviders(t *testing.T, c client.Client, at func(...string) (string, int, string)) {
	t.Helper()
	nm := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "longshore", Name: "turin", Labels: map[string]string{"liqo.io/remoteID": "turin", "liqo.io/replication": "true"},
	}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "turin", Labels: map[string]string{
		offloadingv1beta1.NodeTypeLabel: offloadingv1beta1.NodeTypeVirtual, "liqo.io/remote-cluster-id": "turin",
	}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "in-turin"}, Spec: corev1.PodSpec{
		NodeName: "turin", AutomountServiceAccountToken: new(bool), Containers: []corev1.Container{{Name: "web", Image: "web:1"}},
	}}
	create(t, c, nm, node, pod)
	nm.Status.CurrentMapping = map[string]offloadingv1beta1.RemoteNamespaceStatus{"shop": {RemoteNamespace: "shop-of-rome", Phase: offloadingv1beta1.MappingAccepted}}
	require.NoError(t, c.Status().Update(t.Context(), nm))
	e := asJSON(t, at, "pod/in-turin", "-n", "shop", "--remote-context", "rome")
	require.Len(t, e.Objects, 2)
	assert.Equal(t, "shop-of-rome", e.Objects[1].Namespace, "that of the pod's node")
	assert.True(t, e.Objects[1].Absent)

	e = asJSON(t, at, "pod/web", "-n", "shop", "--remote-context", "rome")
	assert.Equal(t, planner.Scheduling, e.Diagnosis.Stage)
	assert.Contains(t, e.Objects[1].Problem, "namespace shop is offloaded as shop-of-rome, shop-rome: choose one with --remote-namespace")
	_, code, message := at("secret/web", "-n", "shop", "--remote-context", "rome")
	assert.Equal(t, output.CodeUsage, code)
	assert.Contains(t, message, "choose one with --remote-namespace")
}

// fullNodes is a pod that no virtual node has room for.
func fullNodes(t *testing.T, c client.Client, at func(...string) (string, int, string)) {
	t.Helper()
	vn := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: "longshore", Name: "palermo"}}
	vn.Spec.ClusterID = "palermo"
	vn.Spec.ResourceQuota.Hard = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourcePods: resource.MustParse("10")}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "mall", Name: "large"}, Spec: corev1.PodSpec{
		AutomountServiceAccountToken: new(bool), Tolerations: []corev1.Toleration{{Key: offloadingv1beta1.VirtualNodeTaintKey, Operator: corev1.TolerationOpExists}},
		NodeSelector: map[string]string{"liqo.io/remote-cluster-id": "palermo"},
		Containers:   []corev1.Container{{Name: "web", Image: "web:1", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}}},
	}}
	nso := &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "mall", Name: offloadingv1beta1.NamespaceOffloadingName}}
	nso.Spec.PodOffloadingStrategy, nso.Spec.NamespaceMappingStrategy = "Remote", "DefaultName"
	create(t, c, namespace("mall"), vn, nso)
	require.Eventually(t, func() bool { return c.Create(t.Context(), pod) == nil }, soon, tick, "the namespace gets its service account")
	planetest.Until(t, func(t planetest.T) bool {
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available"}}
		return c.Status().Update(t.Context(), pod) == nil
	}, soon, tick, "the scheduler has decided")
	found := asJSON(t, at, "pod/large", "-n", "mall").Diagnosis
	assert.Equal(t, planner.Operator, found.Who)
	assert.Contains(t, found.Message, "No virtual node takes the pod: palermo: insufficient cpu: 2 requested, 1 left")
}

// labeller is a module that reads a name and may write labels.
func labeller(name string) []byte {
	manifest := `{"name":"` + name + `","version":"1","contracts":["v1alpha1"],"points":[{"point":"PodMutation","reads":["/object/metadata/name"],"writes":[{"path":"/metadata/labels","verbs":["merge"]}]}]}`
	return policytest.NewGuest().Answers("describe", manifest).Answers("pod_mutation", `{"version":"v1alpha1"}`).Bytes()
}

// reporting is a component that decides by a policy.
func reporting(policy *policyv1alpha1.OffloadingPolicy, digest string) *policyv1alpha1.PolicyComponent {
	return &policyv1alpha1.PolicyComponent{
		ObjectMeta: metav1.ObjectMeta{Namespace: "longshore", Name: "a"},
		Status: policyv1alpha1.PolicyComponentStatus{Component: "webhook/a", Policies: []policyv1alpha1.PolicyObservation{{
			Name: policy.Name, UID: policy.UID, Generation: policy.Generation, Digest: digest,
			Differences: []policyv1alpha1.Difference{{Point: policyv1alpha1.PodMutationPoint, Kind: "Pod", Namespace: "shop", Name: "web", Operations: []string{"merge /metadata/labels[team]"}}},
		}}},
	}
}

func inspects(t *testing.T, c client.Client, kubeconfig string) {
	t.Helper()
	wasm, other := labeller("mirror"), labeller("another")
	stored := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "longshore", Name: "mirror"}, BinaryData: map[string][]byte{"module.wasm": wasm}}
	object := &policyv1alpha1.OffloadingPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "mirror"},
		Spec:       policyv1alpha1.OffloadingPolicySpec{Module: policyv1alpha1.ModuleSource{ConfigMap: &policyv1alpha1.ConfigMapSource{Namespace: "longshore", Name: "mirror"}}},
	}
	create(t, c, stored, object)
	at := func(args ...string) (string, int, string) {
		return run(t.Context(), append([]string{"policy", "inspect", "--policy", "mirror", "--kubeconfig", kubeconfig}, args...)...)
	}
	out, code, _ := at()
	assert.Equal(t, output.CodeModule, code)
	assert.Contains(t, out, "Components: none reports this policy")
	assert.Contains(t, out, "it is not loaded yet, or no component runs")

	digest, generation := module.Digest(wasm), object.Generation
	condition := func(kind string, status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: "Test", Message: "message of the test", LastTransitionTime: metav1.Now()}
	}
	object.Status = policyv1alpha1.OffloadingPolicyStatus{
		ObservedGeneration: generation, Digest: digest,
		Conditions: []metav1.Condition{condition(policyv1alpha1.ReadyCondition, metav1.ConditionTrue)},
		Manifest: &policyv1alpha1.ManifestSummary{Name: "mirror", Version: "1", Points: []policyv1alpha1.PointSummary{{
			Point: policyv1alpha1.PodMutationPoint, Reads: []string{"/object/metadata/name"},
			Writes: []policyv1alpha1.WriteRule{{Path: "/metadata/labels", Verbs: []policyv1alpha1.Verb{"merge"}}},
		}}},
	}
	require.NoError(t, c.Status().Update(t.Context(), object))
	component := reporting(object, digest)
	create(t, c, component)
	out, code, message := at()
	assert.Equal(t, output.CodeDone, code, message)
	for _, want := range []string{
		"Digest:     " + digest, "reads   /object/metadata/name", "writes  /metadata/labels (merge)", "Ready      True    Test: message of the test",
		"webhook/a runs " + digest[7:19] + " of generation 1",
		"would, at PodMutation, for Pod shop/web: merge /metadata/labels[team]", "Ready: the cluster runs the current policy",
	} {
		assert.Contains(t, out, want)
	}
	assert.NotContains(t, out, "\033[", "plain text in a pipe")

	// The ConfigMap was changed, and a component has not followed.
	stored.BinaryData["module.wasm"] = other
	require.NoError(t, c.Update(t.Context(), stored))
	component.Status.Policies[0].Digest, component.Status.Policies[0].Message = "sha256:0123456789abcdef", "it trapped; its author must act"
	require.NoError(t, c.Update(t.Context(), component))
	object.Status.Manifest.Points[0].Reads = []string{"/object/spec"}
	object.Status.Manifest.Points[0].Writes[0].Verbs = []policyv1alpha1.Verb{"merge", "remove"}
	require.NoError(t, c.Status().Update(t.Context(), object))
	out, code, _ = at("-o", "json")
	assert.Equal(t, output.CodeModule, code)
	var live policy.Live
	require.NoError(t, json.Unmarshal([]byte(out), &live))
	assert.Equal(t, []string{
		"webhook/a runs 0123456789ab, status reports " + digest[7:19],
		"the module at ConfigMap longshore/mirror has digest " + module.Digest(other)[7:19] + ", the cluster has loaded " + digest[7:19],
		"the module at ConfigMap longshore/mirror is another 1, status reports mirror 1",
		"status reports that it reads /object/spec at PodMutation, the module at ConfigMap longshore/mirror does not declare it",
		"status reports that it writes /metadata/labels (merge, remove) at PodMutation, the module at ConfigMap longshore/mirror does not declare it",
	}, live.Disagreements)
	assert.Equal(t, "it trapped; its author must act", live.Components[0].Message)

	require.NoError(t, c.Delete(t.Context(), stored))
	out, code, _ = at()
	assert.Equal(t, output.CodeModule, code)
	assert.Contains(t, out, "the module was not compared: configmaps/mirror in namespace longshore does not exist")
	for _, tc := range [][]string{{"module.wasm"}, {"--context", "none"}} {
		_, code, _ = at(tc...)
		assert.Equal(t, output.CodeUsage, code, tc)
	}
	_, code, message = run(t.Context(), "policy", "inspect", "--policy", "none", "--kubeconfig", kubeconfig)
	assert.Equal(t, output.CodeFailed, code)
	assert.Contains(t, message, "offloadingpolicies/none does not exist")
}

// What is pushed can be pushed again, and is used when the status of this version says so.
func pushes(t *testing.T, c client.Client, kubeconfig string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "module.wasm")
	push := func(args ...string) (string, int, string) {
		return run(t.Context(), append([]string{"policy", "push", file, "--apply", "--kubeconfig", kubeconfig}, args...)...)
	}
	policy := &policyv1alpha1.OffloadingPolicy{}
	for _, name := range []string{"first", "second"} {
		require.NoError(t, os.WriteFile(file, labeller(name), 0o600))
		out, code, message := push("--name", "pushed", "--timeout", "0")
		require.Equal(t, output.CodeDone, code, message)
		assert.Contains(t, out, "Applied: OffloadingPolicy pushed and 1 ConfigMaps in namespace longshore")
		before := policy.Spec.Module.ConfigMap
		require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: "pushed"}, policy))
		assert.NotEqual(t, before, policy.Spec.Module.ConfigMap, "the digest is that of the new module")
		stored := &corev1.ConfigMap{}
		require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "longshore", Name: "pushed"}, stored))
		wasm, err := module.Unpack(stored.BinaryData[policy.Spec.Module.ConfigMap.Key])
		require.NoError(t, err)
		assert.Equal(t, labeller(name), wasm)
	}

	policy.Status.ObservedGeneration = policy.Generation
	policy.Status.Conditions = []metav1.Condition{{Type: policyv1alpha1.ReadyCondition, Status: metav1.ConditionFalse, Reason: "Test", Message: "it trapped", LastTransitionTime: metav1.Now()}}
	require.NoError(t, c.Status().Update(t.Context(), policy))
	_, code, message := push("--name", "pushed", "--timeout", "300ms")
	assert.Equal(t, output.CodeFailed, code)
	assert.Contains(t, message, "Test: it trapped): not used after --timeout 300ms; longshorectl policy inspect --policy pushed has more")
	policy.Status.Conditions[0].Status = metav1.ConditionTrue
	require.NoError(t, c.Status().Update(t.Context(), policy))
	_, code, message = push("--name", "pushed")
	assert.Equal(t, output.CodeDone, code, message)

	policy.Labels = map[string]string{policyv1alpha1.ManagedByLabel: policyv1alpha1.ManagedByConfigMap}
	require.NoError(t, c.Update(t.Context(), policy))
	_, code, message = push("--name", "pushed")
	assert.Equal(t, output.CodeFailed, code)
	assert.Contains(t, message, "OffloadingPolicy pushed is kept from the ConfigMap of its name, which has the label longshore.dev/policy")

	labeled := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "longshore", Name: "labeled", Labels: map[string]string{policyv1alpha1.PolicyLabel: "true"}},
		Data:       map[string]string{policyv1alpha1.PolicyConfigMapSpecKey: "mode: Shadow"},
	}
	require.NoError(t, c.Create(t.Context(), labeled))
	_, code, message = push("--name", "labeled")
	assert.Equal(t, output.CodeFailed, code)
	assert.Contains(t, message, "writing ConfigMap longshore/labeled in the cluster: it is a policy of its own")
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(labeled), labeled))
	assert.Contains(t, labeled.Data, policyv1alpha1.PolicyConfigMapSpecKey, "what its author wrote stays")
}
