package virtualnode

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

func options() *offloadingv1beta1.VkOptionsTemplate {
	return &offloadingv1beta1.VkOptionsTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: "virtual-kubelet-default", Namespace: "longshore"},
		Spec: offloadingv1beta1.VkOptionsTemplateSpec{
			CreateNode: true, ContainerImage: "longshore/longshore:1", Replicas: ptr.To[int32](1),
			MetricsEnabled: true, MetricsAddress: ":5872",
			LabelsNotReflected: []string{"team"}, AnnotationsNotReflected: []string{"neg"},
			ReflectorsConfig: map[string]offloadingv1beta1.ReflectorConfig{
				"pod": {NumWorkers: 10}, "configmap": {NumWorkers: 3, Type: offloadingv1beta1.DenyList},
			},
			ExtraArgs: []string{"--client-qps=50"},
		},
	}
}

func virtualNode(change func(*offloadingv1beta1.VirtualNode)) *offloadingv1beta1.VirtualNode {
	vn := &offloadingv1beta1.VirtualNode{
		TypeMeta:   metav1.TypeMeta{APIVersion: offloadingv1beta1.GroupVersion.String(), Kind: "VirtualNode"},
		ObjectMeta: metav1.ObjectMeta{Name: "mynode", Namespace: "liqo-tenant-milan"},
		Spec: offloadingv1beta1.VirtualNodeSpec{
			ClusterID: "milan", KubeconfigSecretRef: &corev1.LocalObjectReference{Name: "kubeconfig-resourceslice-mynode"},
		},
	}
	if change != nil {
		change(vn)
	}
	return vn
}

// tenants returns the tenant namespaces of two providers and a namespace of a user.
func tenants() []client.Object {
	return []client.Object{
		authentication.TenantNamespace("milan"), authentication.TenantNamespace("turin"),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"liqo.io/remote-cluster-id": "milan"}}},
	}
}

func handler(existing ...client.Object) *Handler {
	api := fakeclient.Builder(append(existing, tenants()...)...).
		WithIndex(&offloadingv1beta1.VirtualNode{}, metav1.ObjectNameField, func(o client.Object) []string { return []string{o.GetName()} }).Build()
	return &Handler{
		Reader: api, APIReader: api,
		Decoder: admission.NewDecoder(api.Scheme()), DefaultOptions: client.ObjectKey{Namespace: "longshore", Name: "virtual-kubelet-default"},
		Cluster: virtualkubelet.Cluster{ID: "rome", Namespace: "longshore", LocalPodCIDRs: []string{"10.10.0.0/16"}},
	}
}

func ask(t *testing.T, h *Handler, operation admissionv1.Operation, vn *offloadingv1beta1.VirtualNode) admission.Response {
	t.Helper()
	raw, err := json.Marshal(vn)
	require.NoError(t, err)
	return h.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: operation, Namespace: vn.Namespace, Name: vn.Name, Object: runtime.RawExtension{Raw: raw},
	}})
}

func TestInvalidVirtualNodesAreDenied(t *testing.T) {
	withArgs := func(args ...string) func(*offloadingv1beta1.VirtualNode) {
		return func(vn *offloadingv1beta1.VirtualNode) {
			vn.Spec.Template = &offloadingv1beta1.DeploymentTemplate{}
			vn.Spec.Template.Spec.Template.Spec.Containers = []corev1.Container{{Args: args}}
		}
	}
	cases := map[string]struct {
		operation admissionv1.Operation
		change    func(*offloadingv1beta1.VirtualNode)
		existing  []client.Object
		want      string
	}{
		"the options template is missing": {
			operation: admissionv1.Create, want: "reading VkOptionsTemplate longshore/virtual-kubelet-default"},
		"a Node has the name": {
			operation: admissionv1.Create, want: `nodes "mynode" already exists`,
			existing: []client.Object{options(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "mynode"}}}},
		"a VirtualNode of another namespace has the name": {
			operation: admissionv1.Create, existing: []client.Object{options(), ofParis()},
			want: "VirtualNode liqo-tenant-paris/mynode has this name, which is also the name of its Node: create this VirtualNode under another name, or delete VirtualNode liqo-tenant-paris/mynode first"},
		"a namespace of a user": {
			operation: admissionv1.Create, existing: []client.Object{options()}, change: in("shop"),
			want: `namespace "shop" is not the tenant namespace of cluster "milan" (labels liqo.io/tenant-namespace=true and liqo.io/remote-cluster-id=milan). Create the VirtualNode in the tenant namespace`},
		"the tenant namespace of another provider": {
			operation: admissionv1.Create, existing: []client.Object{options()}, change: in("liqo-tenant-turin"),
			want: `namespace "liqo-tenant-turin" is not the tenant namespace of cluster "milan"`},
		"a namespace that does not exist": {
			operation: admissionv1.Create, existing: []client.Object{options()}, change: in("nowhere"),
			want: `namespace "nowhere" is not the tenant namespace of cluster "milan"`},
		"an argument without value (T66)": {
			operation: admissionv1.Create, change: withArgs("--client-qps"), existing: []client.Object{options()}, want: `argument "--client-qps" has no value`},
		"an argument that is not a flag": {
			operation: admissionv1.Create, change: withArgs("run"), existing: []client.Object{options()}, want: `argument "run" is not of the form`},
		"a label argument that is not a map": {
			operation: admissionv1.Create, change: withArgs("--node-extra-labels=zone"), existing: []client.Object{options()}, want: `"zone" is not of the form key=value`},
		"no cluster ID": {
			operation: admissionv1.Create, change: func(vn *offloadingv1beta1.VirtualNode) { vn.Spec.ClusterID = "" },
			existing: []client.Object{options()}, want: "spec.clusterID is required"},
		"spec.template is removed (T66)": {
			operation: admissionv1.Update, existing: []client.Object{options()}, want: "spec.template cannot be removed"},
		"the containers are removed (T66)": {
			operation: admissionv1.Update, existing: []client.Object{options()}, want: "containers is empty",
			change: func(vn *offloadingv1beta1.VirtualNode) { vn.Spec.Template = &offloadingv1beta1.DeploymentTemplate{} }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			response := ask(t, handler(tc.existing...), tc.operation, virtualNode(tc.change))
			assert.False(t, response.Allowed)
			assert.Contains(t, response.Result.Message, tc.want)
		})
	}
}

func in(namespace string) func(*offloadingv1beta1.VirtualNode) {
	return func(vn *offloadingv1beta1.VirtualNode) { vn.Namespace = namespace }
}

func TestCreateAcceptsACompletedVirtualNode(t *testing.T) {
	vn := completed(t)
	response := ask(t, handler(options()), admissionv1.Create, vn)
	assert.True(t, response.Allowed, "restoring a backup: %v", response.Result)
}

// completed returns a VirtualNode as the webhook stores it.
func completed(t *testing.T) *offloadingv1beta1.VirtualNode {
	t.Helper()
	vn, opts := virtualNode(nil), options()
	require.NoError(t, virtualkubelet.Complete(vn, opts, virtualkubelet.Cluster{ID: "rome", Namespace: "longshore"}))
	require.NoError(t, virtualkubelet.SyncTemplate(vn, opts))
	return vn
}

// ofParis returns a VirtualNode with the name of virtualNode in another tenant namespace.
func ofParis() *offloadingv1beta1.VirtualNode {
	return virtualNode(func(vn *offloadingv1beta1.VirtualNode) {
		vn.Namespace, vn.Spec.ClusterID = "liqo-tenant-paris", "paris"
	})
}

func TestCheckNameAcceptsAnUnusedName(t *testing.T) {
	other := ofParis()
	other.Name = "other"
	// The API server itself rejects a second VirtualNode of the name in the namespace.
	response := ask(t, handler(options(), other, virtualNode(nil)), admissionv1.Create, virtualNode(nil))
	assert.True(t, response.Allowed, response.Result)
}

// A VirtualNode that was deleted without its finalizer has left its Node.
func TestAVirtualNodeIsCreatedAgainForItsNode(t *testing.T) {
	node := func(cluster, kind string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "mynode", Labels: map[string]string{"liqo.io/remote-cluster-id": cluster, "liqo.io/type": kind}}}
	}
	for name, tc := range map[string]struct {
		existing []client.Object
		allowed  bool
	}{
		"a virtual node of the provider":    {[]client.Object{node("milan", "virtual-node")}, true},
		"a virtual node of another one":     {[]client.Object{node("paris", "virtual-node")}, false},
		"another kind of Node":              {[]client.Object{node("milan", "")}, false},
		"a VirtualNode of another provider": {[]client.Object{node("milan", "virtual-node"), ofParis()}, false},
	} {
		t.Run(name, func(t *testing.T) {
			response := ask(t, handler(append(tc.existing, options())...), admissionv1.Create, virtualNode(nil))
			assert.Equal(t, tc.allowed, response.Allowed, response.Result)
		})
	}
}

func TestUpdateDoesNotCheckTheName(t *testing.T) {
	existing := completed(t)
	response := ask(t, handler(options(), ofParis(), existing), admissionv1.Update, existing)
	assert.True(t, response.Allowed, response.Result)
}

func TestInternalErrorsAreNotDenials(t *testing.T) {
	h := handler(options())
	h.Reader = interceptor.NewClient(h.Reader.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, ok := obj.(*corev1.Node); ok {
				return syscall.ECONNREFUSED
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
	response := ask(t, h, admissionv1.Create, virtualNode(nil))
	assert.False(t, response.Allowed)
	assert.Equal(t, int32(http.StatusInternalServerError), response.Result.Code)
	assert.Contains(t, response.Result.Message, syscall.ECONNREFUSED.Error())
}

func TestDroppedArgumentsCauseAWarning(t *testing.T) {
	vn := virtualNode(func(vn *offloadingv1beta1.VirtualNode) {
		vn.Spec.Template = &offloadingv1beta1.DeploymentTemplate{}
		vn.Spec.Template.Spec.Template.Spec.Containers = []corev1.Container{{
			Args: []string{"--nodename=mynode", "--client-qps=9", "--node-extra-labels=b=1,a=2", "--metrics-enabled", "--unknown=1", "--home-cluster-id=paris"},
		}}
	})
	response := ask(t, handler(options()), admissionv1.Create, vn)
	require.True(t, response.Allowed, response.Result)
	require.Len(t, response.Warnings, 2)
	assert.Contains(t, response.Warnings[0], `"--unknown=1" is ignored`)
	assert.Contains(t, response.Warnings[1], `"--home-cluster-id=paris" is ignored`)
}

func TestArgumentsWithoutEffectCauseAWarning(t *testing.T) {
	template := func(args ...string) func(*offloadingv1beta1.VirtualNode) {
		return func(vn *offloadingv1beta1.VirtualNode) {
			vn.Spec.Template = &offloadingv1beta1.DeploymentTemplate{}
			vn.Spec.Template.Spec.Template.Spec.Containers = []corev1.Container{{Args: args}}
		}
	}
	for name, tc := range map[string]struct {
		operation   admissionv1.Operation
		before, now func(*offloadingv1beta1.VirtualNode)
		extraArgs   []string
		want        []string
	}{
		"arguments of the installation alone cause no warning": {operation: admissionv1.Create},
		"an argument of the author": {
			operation: admissionv1.Create, now: template("--remote-external-cidr=10.10.0.0/16"),
			want: []string{`"--remote-external-cidr=10.10.0.0/16" has no effect in this version: addresses`}},
		"an argument of author and options template, once": {
			operation: admissionv1.Create, now: template("--enable-apiserver-support=true"), extraArgs: []string{"--enable-apiserver-support=true", "--event-reflection-workers=0"},
			want: []string{`"--enable-apiserver-support=true" has no effect`}},
		"the arguments of storage classes have an effect": {
			operation: admissionv1.Create,
			now: func(vn *offloadingv1beta1.VirtualNode) {
				vn.Spec.StorageClasses = []authv1beta1.StorageType{{StorageClassName: "fast"}}
			}},
		"an argument that an update adds": {
			operation: admissionv1.Update, before: template("--remote-external-cidr=10.10.0.0/16"),
			now:  template("--remote-external-cidr=10.10.0.0/16", "--resync-period=1h", "--remote-pod-cidr=10.20.0.0/16"),
			want: []string{`"--remote-pod-cidr=10.20.0.0/16" has no effect in this version: addresses`}},
	} {
		t.Run(name, func(t *testing.T) {
			opts := options()
			opts.Spec.ExtraArgs = append(opts.Spec.ExtraArgs, tc.extraArgs...)
			request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Operation: tc.operation, Namespace: "liqo-tenant-milan", Name: "mynode", Object: encoded(t, virtualNode(tc.now)),
			}}
			if tc.before != nil {
				request.OldObject = encoded(t, virtualNode(tc.before))
			}
			response := handler(opts).Handle(t.Context(), request)
			require.True(t, response.Allowed, response.Result)
			warnings := slices.DeleteFunc(response.Warnings, func(warning string) bool { return strings.Contains(warning, "is ignored") })
			require.Len(t, warnings, len(tc.want), warnings)
			for i, want := range tc.want {
				assert.Contains(t, warnings[i], want)
			}
		})
	}
}

func encoded(t *testing.T, vn *offloadingv1beta1.VirtualNode) runtime.RawExtension {
	t.Helper()
	raw, err := json.Marshal(vn)
	require.NoError(t, err)
	return runtime.RawExtension{Raw: raw}
}

func TestCreateIsAllowedWithAPatch(t *testing.T) {
	response := ask(t, handler(options()), admissionv1.Create, virtualNode(nil))
	assert.True(t, response.Allowed, response.Result)
	assert.NotEmpty(t, response.Patches)
}

func TestAVirtualNodeThatIsBeingDeletedIsAllowed(t *testing.T) {
	now := metav1.Now()
	response := ask(t, handler(), admissionv1.Update, virtualNode(func(vn *offloadingv1beta1.VirtualNode) { vn.DeletionTimestamp = &now }))
	assert.True(t, response.Allowed)
}

// Half an address would send tokens to the provider's API server.
func TestHalfAnAddressOfTheAPIServerIsRefused(t *testing.T) {
	const host, port = "--home-api-server-host=api.rome.example.com", "--home-api-server-port=6443"
	template := func(args ...string) func(*offloadingv1beta1.VirtualNode) {
		return func(vn *offloadingv1beta1.VirtualNode) {
			vn.Spec.Template = &offloadingv1beta1.DeploymentTemplate{}
			vn.Spec.Template.Spec.Template.Spec.Containers = []corev1.Container{{Args: args}}
		}
	}
	for name, tc := range map[string]struct {
		before, now func(*offloadingv1beta1.VirtualNode)
		extraArgs   []string
		denied      bool
	}{
		"a host without port":        {extraArgs: []string{host}, denied: true},
		"a port without host":        {extraArgs: []string{port}, denied: true},
		"an empty host":              {extraArgs: []string{"--home-api-server-host=", port}, denied: true},
		"both":                       {extraArgs: []string{"--enable-apiserver-support", host, port}},
		"neither":                    {},
		"an update that removes one": {before: template(host, port), now: template(host), denied: true},
		"an update of a VirtualNode that was incomplete": {before: template(host), now: template(host, "--resync-period=1h")},
		"an update that completes it":                    {before: template(host), now: template(host, port)},
	} {
		t.Run(name, func(t *testing.T) {
			opts := options()
			opts.Spec.ExtraArgs = append(opts.Spec.ExtraArgs, tc.extraArgs...)
			request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Operation: admissionv1.Create, Namespace: "liqo-tenant-milan", Name: "mynode", Object: encoded(t, virtualNode(tc.now)),
			}}
			if tc.before != nil {
				request.Operation, request.OldObject = admissionv1.Update, encoded(t, virtualNode(tc.before))
			}
			response := handler(opts).Handle(t.Context(), request)
			assert.Equal(t, tc.denied, !response.Allowed, response.Result)
			if tc.denied {
				assert.Contains(t, response.Result.Message, "--home-api-server-host and --home-api-server-port must be set together")
			}
		})
	}
}
