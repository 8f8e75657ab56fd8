package virtualnode

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme"
	"github.com/longshore-dev/longshore/host/forge/local"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
)

type nodeCase struct {
	change func(*offloadingv1beta1.VirtualNode)
	// want is a part of the message; "" means accepted.
	want string
}

// nodes returns VirtualNodes with a valid and with an invalid Node.
func nodes() map[string]nodeCase {
	labels := func(labels map[string]string) func(*offloadingv1beta1.VirtualNode) {
		return func(vn *offloadingv1beta1.VirtualNode) { vn.Spec.Labels = labels }
	}
	annotations := func(annotations map[string]string) func(*offloadingv1beta1.VirtualNode) {
		return func(vn *offloadingv1beta1.VirtualNode) { vn.Spec.Annotations = annotations }
	}
	taints := func(taints ...corev1.Taint) func(*offloadingv1beta1.VirtualNode) {
		return func(vn *offloadingv1beta1.VirtualNode) { vn.Spec.Taints = taints }
	}
	hard := func(name corev1.ResourceName, quantity string) func(*offloadingv1beta1.VirtualNode) {
		return func(vn *offloadingv1beta1.VirtualNode) {
			vn.Spec.ResourceQuota.Hard = corev1.ResourceList{name: resource.MustParse(quantity)}
		}
	}
	args := func(args ...string) func(*offloadingv1beta1.VirtualNode) {
		return func(vn *offloadingv1beta1.VirtualNode) {
			vn.Spec.Template = &offloadingv1beta1.DeploymentTemplate{}
			vn.Spec.Template.Spec.Template.Spec.Containers = []corev1.Container{{Args: args}}
		}
	}
	const effect = corev1.TaintEffectNoSchedule
	return map[string]nodeCase{
		"only the provider":               {},
		"labels":                          {labels(map[string]string{"region": "eu", "example.com/zone": ""}), ""},
		"a key with a space":              {labels(map[string]string{"a b": "c"}), `spec.labels: Invalid value: "a b"`},
		"a label value that is too long":  {labels(map[string]string{"a": strings.Repeat("x", 64)}), "spec.labels: Invalid value"},
		"annotations of any value":        {annotations(map[string]string{"example.com/note": "any thing"}), ""},
		"an annotation's bad key":         {annotations(map[string]string{"a b": "c"}), `spec.annotations: Invalid value: "a b"`},
		"a taint":                         {taints(corev1.Taint{Key: "example.com/gpu", Value: "yes", Effect: effect}), ""},
		"a duplicate taint":               {taints(corev1.Taint{Key: "gpu", Effect: effect}, corev1.Taint{Key: "gpu", Effect: effect}), ""},
		"an unknown effect":               {taints(corev1.Taint{Key: "gpu", Effect: effect}, corev1.Taint{Key: "gpu", Effect: "Foo"}), `spec.taints[1].effect: Unsupported value: "Foo"`},
		"a taint without effect":          {taints(corev1.Taint{Key: "gpu"}), `spec.taints[0].effect: Unsupported value: ""`},
		"a taint without key":             {taints(corev1.Taint{Effect: effect}), "spec.taints[0].key: Invalid value"},
		"a taint's bad value":             {taints(corev1.Taint{Key: "gpu", Value: "a b", Effect: effect}), `spec.taints[0].value: Invalid value: "a b"`},
		"a negative quantity":             {hard(corev1.ResourceCPU, "-1"), `spec.resourceQuota.hard[cpu]: Invalid value: "-1": must not be negative`},
		"a zero quantity":                 {hard(corev1.ResourceCPU, "0"), ""},
		"a fraction of a CPU":             {hard(corev1.ResourceCPU, "500m"), ""},
		"a fraction of a byte":            {hard(corev1.ResourceMemory, "500m"), ""},
		"a fraction of a pod":             {hard(corev1.ResourcePods, "500m"), `spec.resourceQuota.hard[pods]: Invalid value: "500m": must be a whole number`},
		"a device":                        {hard("example.com/gpu", "1"), ""},
		"a fraction of a device":          {hard("example.com/gpu", "500m"), "spec.resourceQuota.hard[example.com/gpu]"},
		"a fraction of a native resource": {hard("kubernetes.io/thing", "500m"), ""},
		"a resource of a quota":           {hard("requests.example.com/gpu", "500m"), ""},
		"a resource of any name":          {hard("any thing/at all", "500m"), ""},
		"a name of 63 characters":         {func(vn *offloadingv1beta1.VirtualNode) { vn.Name = strings.Repeat("x", 63) }, ""},
		"a name of 64 characters":         {func(vn *offloadingv1beta1.VirtualNode) { vn.Name = strings.Repeat("x", 64) }, "metadata.name: Invalid value"},
		"a long cluster ID": {func(vn *offloadingv1beta1.VirtualNode) {
			vn.Spec.ClusterID = liqocorev1beta1.ClusterID(strings.Repeat("x", 64))
		}, "spec.clusterID: Invalid value"},
		"labels in an argument":           {args("--node-extra-labels=zone=a,rack=7"), ""},
		"a bad one in an argument":        {args("--node-extra-labels=zone=a b"), `--node-extra-labels: Invalid value: "a b"`},
		"a bad annotation in an argument": {args("--node-extra-annotations=a b=c"), `--node-extra-annotations: Invalid value: "a b"`},
	}
}

func TestAVirtualNodeWithAnInvalidNodeIsDenied(t *testing.T) {
	h := handler(options())
	for name, tc := range nodes() {
		t.Run(name, func(t *testing.T) {
			response := ask(t, h, admissionv1.Create, virtualNode(tc.change))
			if tc.want == "" {
				assert.True(t, response.Allowed, response.Result)
				return
			}
			assert.False(t, response.Allowed)
			assert.Contains(t, response.Result.Message, tc.want)
		})
	}
	t.Run("every error is reported", func(t *testing.T) {
		response := ask(t, h, admissionv1.Create, virtualNode(func(vn *offloadingv1beta1.VirtualNode) {
			vn.Spec.Labels, vn.Spec.Taints = map[string]string{"a b": "c"}, []corev1.Taint{{Key: "gpu", Effect: "Foo"}}
		}))
		assert.Contains(t, response.Result.Message, "spec.labels")
		assert.Contains(t, response.Result.Message, "spec.taints[0].effect")
	})
	t.Run("a generated name", func(t *testing.T) {
		response := ask(t, h, admissionv1.Create, virtualNode(func(vn *offloadingv1beta1.VirtualNode) { vn.Name, vn.GenerateName = "", "milan-" }))
		assert.False(t, response.Allowed)
		assert.Contains(t, response.Result.Message, "metadata.name: Required value")
	})
}

// The virtual kubelet could not parse such an argument, and would not start.
func TestAnInvalidArgumentIsDenied(t *testing.T) {
	h := handler(options())
	for argument, want := range map[string]string{
		"--create-node=false":        "",
		"--create-node":              "",
		"--enable-storage=0":         "",
		"--unknown=maybe":            "",
		"--node-extra-labels=zone=a": "",
		"--create-node=maybe":        `Invalid value: "--create-node=maybe": must be true or false`,
		"--enable-storage=":          `"--enable-storage=": must be true or false`,
		"--vk-lease-enabled=yes":     `"--vk-lease-enabled=yes": must be true or false`,
		"--nodename=mynode":          "",
		"--nodename=other":           `"--nodename=other": must be the name of the VirtualNode`,
	} {
		t.Run(argument, func(t *testing.T) {
			before, after := completed(t), completed(t)
			container := &after.Spec.Template.Spec.Template.Spec.Containers[0]
			container.Args = append(container.Args, argument)
			response := h.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Operation: admissionv1.Update, Namespace: "liqo-tenant-milan", Name: "mynode", OldObject: encoded(t, before), Object: encoded(t, after),
			}})
			assert.Equal(t, want == "", response.Allowed, response.Result)
			if want != "" {
				assert.Contains(t, response.Result.Message, want)
			}
		})
	}
}

func TestAnUpdateIsDeniedForNewErrorsOnly(t *testing.T) {
	made := func(change func(*offloadingv1beta1.VirtualNode)) *offloadingv1beta1.VirtualNode {
		vn := completed(t)
		change(vn)
		return vn
	}
	bad := func(vn *offloadingv1beta1.VirtualNode) { vn.Spec.Labels = map[string]string{"a b": "c"} }
	worse := func(vn *offloadingv1beta1.VirtualNode) {
		bad(vn)
		vn.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: "Foo"}}
	}
	good := func(*offloadingv1beta1.VirtualNode) {}
	finalized := func(vn *offloadingv1beta1.VirtualNode) {
		bad(vn)
		vn.Finalizers = []string{offloadingv1beta1.VirtualNodeFinalizer}
	}
	for name, tc := range map[string]struct {
		before, after func(*offloadingv1beta1.VirtualNode)
		want, not     string
	}{
		"a new error":            {before: good, after: bad, want: "spec.labels"},
		"an old error":           {before: bad, after: finalized},
		"an old and a new error": {before: bad, after: worse, want: "spec.taints[0].effect", not: "spec.labels"},
		"errors are corrected":   {before: worse, after: good},
		"no error":               {before: good, after: good},
	} {
		t.Run(name, func(t *testing.T) {
			response := handler(options()).Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Operation: admissionv1.Update, Namespace: "liqo-tenant-milan", Name: "mynode",
				OldObject: encoded(t, made(tc.before)), Object: encoded(t, made(tc.after)),
			}})
			if tc.want == "" {
				assert.True(t, response.Allowed, response.Result)
				return
			}
			require.False(t, response.Allowed)
			assert.Contains(t, response.Result.Message, tc.want)
			if tc.not != "" {
				assert.NotContains(t, response.Result.Message, tc.not)
			}
		})
	}
}

// TestAgreesWithAnAPIServer compares the webhook with a real API server.
func TestAgreesWithAnAPIServer(t *testing.T) {
	cluster := planetest.ForTest(t, "rome")
	s, err := scheme.New()
	require.NoError(t, err)
	api, err := client.New(cluster.RESTConfig(), client.Options{Scheme: s})
	require.NoError(t, err)
	t.Run("denied VirtualNodes are those with an invalid Node", func(t *testing.T) { testNodes(t, api) })
	t.Run("virtual kubelets run in a restricted namespace", func(t *testing.T) { testRestricted(t, api) })
}

// testNodes creates the Node that the virtual kubelet would create.
func testNodes(t *testing.T, api client.Client) {
	t.Helper()
	for name, tc := range nodes() {
		t.Run(name, func(t *testing.T) {
			vn := virtualNode(tc.change)
			input := local.NodeInput{VirtualNode: vn, NodeIP: "127.0.0.9", KubeletPort: 10250, Now: time.Unix(0, 0)}
			for _, argument := range virtualkubelet.Arguments(vn) {
				flag, value, _ := strings.Cut(argument, "=")
				parsed, err := virtualkubelet.ParseMap(flag, value)
				require.NoError(t, err)
				if flag == virtualkubelet.FlagNodeLabels {
					input.ExtraLabels = parsed
				} else {
					input.ExtraAnnotations = parsed
				}
			}
			node := local.Node(input)
			// local.Node leaves out what no Node may have; here the API server is asked.
			node.Status.Capacity, node.Status.Allocatable = vn.Spec.ResourceQuota.Hard, vn.Spec.ResourceQuota.Hard
			err := api.Create(t.Context(), node, client.DryRunAll)
			if tc.want == "" {
				assert.NoError(t, err)
				return
			}
			assert.True(t, apierrors.IsInvalid(err), "%v", err)
		})
	}
}
