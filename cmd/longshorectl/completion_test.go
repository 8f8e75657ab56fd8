package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/cmd/longshorectl/policy"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
)

// completed are the candidates for the last word, as a shell asks for them, the directive among
// them, and what is on the standard error.
func completed(t *testing.T, words ...string) (candidates []string, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	root := command(nil)
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetArgs(append([]string{cobra.ShellCompNoDescRequestCmd}, words...))
	require.NoError(t, root.ExecuteContext(t.Context()))
	return strings.Fields(out.String()), errs.String()
}

func TestEveryArgumentAndFlagHasACompletion(t *testing.T) {
	var walk func(*cobra.Command)
	walk = func(command *cobra.Command) {
		if command.Hidden || command.Name() == "completion" || command.Name() == "help" {
			return
		}
		assert.NotNil(t, command.ValidArgsFunction, "%s: complete/table.go has no completion of its arguments", command.CommandPath())
		command.LocalFlags().VisitAll(func(flag *pflag.Flag) {
			if flag.Hidden || flag.Value.Type() == "bool" {
				return
			}
			_, has := command.GetFlagCompletionFunc(flag.Name)
			assert.True(t, has, "%s --%s: complete/table.go has no completion of its value", command.CommandPath(), flag.Name)
		})
		for _, child := range command.Commands() {
			walk(child)
		}
	}
	root := command(nil)
	root.InitDefaultHelpCmd()
	walk(root)
}

func TestFixedValuesAreCompleted(t *testing.T) {
	for line, want := range map[string]string{
		"get virtualnode -o=": "json table wide yaml :4",
		"status -o ":          "json table wide yaml :4",
		"offload namespace --pod-offloading-strategy ":      "Local LocalAndRemote Remote :4",
		"offload namespace --pod-offloading-strategy Local": "Local LocalAndRemote :4",
		"offload namespace --namespace-mapping-strategy S":  "SelectedName :4",
		"policy init --lang ":                               strings.Join(policy.Languages(), " ") + " :4",
		"policy run m --point Pod":                          "PodMutation :4",
		"policy run m --moment ":                            "Admission Offload :4",
		"policy run ":                                       "wasm gz zst :8",
		"policy run m ":                                     ":4",
		"plan -f ":                                          ":0",
		"create resourceslice a --cpu ":                     ":4",
		"explain ":                                          "configmap/ pod/ secret/ service/ shadowpod/ :6",
		"explain p":                                         "pod/ :6",
		"get v":                                             "virtualnode :4",
		"peer ":                                             ":4",
	} {
		t.Run(line, func(t *testing.T) {
			words := strings.Split(line, " ")
			got, _ := completed(t, words...)
			assert.Equal(t, want, strings.Join(got, " "))
		})
	}
}

func TestAClusterThatCannotBeReadCompletesNothing(t *testing.T) {
	folder := t.TempDir()
	broken, closed := filepath.Join(folder, "broken"), filepath.Join(folder, "closed")
	require.NoError(t, os.WriteFile(broken, []byte("not: [a"), 0o600))
	require.NoError(t, os.WriteFile(closed, []byte(kubeconfigOf("https://127.0.0.1:1")), 0o600))
	for name, kubeconfig := range map[string]string{"no file": filepath.Join(folder, "none"), "an invalid file": broken, "a closed port": closed} {
		for _, words := range [][]string{
			{"get", "virtualnode", "--kubeconfig", kubeconfig, ""}, {"info", "--kubeconfig", kubeconfig, ""}, {"explain", "--kubeconfig", kubeconfig, "pod/"},
			{"create", "virtualnode", "a", "--kubeconfig", kubeconfig, "--storage-classes", ""}, {"offload", "namespace", "--kubeconfig", kubeconfig, ""},
		} {
			t.Run(name+" "+strings.Join(words[:2], " "), func(t *testing.T) {
				start := time.Now()
				got, stderr := completed(t, words...)
				assert.Equal(t, ":4", strings.Join(got, " "))
				assert.Equal(t, "Completion ended with directive: ShellCompDirectiveNoFileComp\n", stderr)
				assert.Less(t, time.Since(start), soon)
			})
		}
	}
	got, _ := completed(t, "status", "--kubeconfig", closed, "--context", "")
	assert.Equal(t, "main :4", strings.Join(got, " "))
	got, _ = completed(t, "peer", "--kubeconfig", closed, "--remote-context", "")
	assert.Equal(t, "main :4", strings.Join(got, " "))
}

func kubeconfigOf(server string) string {
	return "apiVersion: v1\nkind: Config\ncurrent-context: main\nclusters: [{name: c, cluster: {server: '" + server + "'}}]\n" +
		"users: [{name: u, user: {}}]\ncontexts: [{name: main, context: {cluster: c, user: u}}]\n"
}

// named starts an API server and creates objects of every kind that is completed.
func named(t *testing.T) string {
	t.Helper()
	plane := planetest.ForTest(t, "rome")
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, offloadingv1beta1.AddToScheme, policyv1alpha1.AddToScheme, authv1beta1.AddToScheme, liqocorev1beta1.AddToScheme,
	} {
		require.NoError(t, add(scheme))
	}
	c, err := client.New(plane.RESTConfig(), client.Options{Scheme: scheme})
	require.NoError(t, err)
	meta := func(namespace, name string, labels map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}
	}
	const tenant = "liqo-tenant-milan"
	milan := map[string]string{liqocorev1beta1.RemoteClusterIDLabel: "milan"}
	slice := &authv1beta1.ResourceSlice{ObjectMeta: meta(tenant, "pool", milan), Spec: authv1beta1.ResourceSliceSpec{Class: "gold"}}
	replica := map[string]string{liqocorev1beta1.RemoteClusterIDLabel: "turin", liqocorev1beta1.ReplicatedLabel: "true", liqocorev1beta1.OriginIDLabel: "turin"}
	containers := corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}
	create(t, c,
		&corev1.Namespace{ObjectMeta: meta("", tenant, map[string]string{liqocorev1beta1.RemoteClusterIDLabel: "milan", liqocorev1beta1.TenantNamespaceLabel: "true"})},
		&corev1.Namespace{ObjectMeta: meta("", "shop", map[string]string{"team": "sales"})}, namespace("shipping"),
		&liqocorev1beta1.ForeignCluster{ObjectMeta: meta("", "milan", nil), Spec: liqocorev1beta1.ForeignClusterSpec{ClusterID: "milan"}},
		slice, &authv1beta1.ResourceSlice{ObjectMeta: meta(tenant, "theirs", replica)},
		&offloadingv1beta1.VirtualNode{ObjectMeta: meta(tenant, "pool", milan), Spec: offloadingv1beta1.VirtualNodeSpec{ClusterID: "milan"}},
		&authv1beta1.Tenant{ObjectMeta: meta(tenant, "turin", nil), Spec: authv1beta1.TenantSpec{ClusterID: "turin"}},
		&authv1beta1.Identity{ObjectMeta: meta(tenant, "controlplane-milan", milan)},
		&corev1.Secret{ObjectMeta: meta(tenant, "kubeconfig-milan", nil)},
		&offloadingv1beta1.VkOptionsTemplate{ObjectMeta: meta("shop", "small", nil)},
		&corev1.Node{ObjectMeta: meta("", "pool", map[string]string{offloadingv1beta1.NodeTypeLabel: offloadingv1beta1.NodeTypeVirtual, "region": "eu"})},
		&corev1.Node{ObjectMeta: meta("", "worker", map[string]string{"region": "us"})},
		&corev1.Pod{ObjectMeta: meta("shop", "web", nil), Spec: containers}, &corev1.Pod{ObjectMeta: meta("shipping", "track", nil), Spec: containers},
		&corev1.PersistentVolumeClaim{ObjectMeta: meta("shop", "data", nil), Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}},
		&storagev1.StorageClass{ObjectMeta: meta("", "fast", nil), Provisioner: "example.com/fast"},
		&policyv1alpha1.OffloadingPolicy{ObjectMeta: meta("", "mirror", nil), Spec: policyv1alpha1.OffloadingPolicySpec{Module: policyv1alpha1.ModuleSource{BuiltIn: "default"}}},
	)
	slice.Status.StorageClasses = []authv1beta1.StorageType{{StorageClassName: "ssd"}, {StorageClassName: "disk"}}
	slice.Status.NodeLabels = map[string]string{"gpu": "yes"}
	require.NoError(t, c.Status().Update(t.Context(), slice))
	return plane.Kubeconfig()
}

// TestNamesOfObjectsAreCompleted asks a real API server.
func TestNamesOfObjectsAreCompleted(t *testing.T) {
	kubeconfig := named(t)
	for line, want := range map[string]string{
		"get virtualnode ":                            "pool :4",
		"get virtualnode --remote-cluster-id turin ":  ":4",
		"get resourceslice ":                          "pool theirs :4",
		"delete resourceslice ":                       "pool :4",
		"cordon resourceslice ":                       "theirs :4",
		"drain tenant ":                               "turin :4",
		"info ":                                       "milan :4",
		"info peer ":                                  "milan :4",
		"info milan ":                                 ":4",
		"force unpeer ":                               "milan :4",
		"get kubeconfig --remote-cluster-id ":         "milan :4",
		"get kubeconfig --remote-cluster-id milan ":   "controlplane-milan :4",
		"create resourceslice a --class ":             "default gold :4",
		"create virtualnode a --resource-slice-name ": "pool :4",
		"create virtualnode a --remote-cluster-id milan --kubeconfig-secret-name ": "kubeconfig-milan :4",
		"create virtualnode a --storage-classes ":                                  "disk ssd :6",
		"create virtualnode a --storage-classes ssd,":                              "ssd,disk :6",
		"create virtualnode a --node-selector ":                                    "gpu=yes :6",
		"create virtualnode a --vk-options-template ":                              "shop/small :4",
		"offload namespace sh":                                                     "shipping shop :4",
		"offload namespace shop sh":                                                "shipping :4",
		"offload namespace --ns-selector team":                                     "team=sales :6",
		"offload namespace a --selector region":                                    "region=eu :6",
		"explain -n shop pod/":                                                     "pod/web :4",
		"explain -n shop pod ":                                                     "web :4",
		"explain -n shi":                                                           "shipping :4",
		"move volume -n shop ":                                                     "data :4",
		"move volume data --target-node ":                                          "pool worker :4",
		"move volume data --storage-class ":                                        "fast :4",
		"policy inspect --policy ":                                                 "mirror :4",
		"plan --node ":                                                             "pool :4",
	} {
		t.Run(line, func(t *testing.T) {
			words := strings.Split(line, " ")
			got, stderr := completed(t, slices.Concat(words[:1], []string{"--kubeconfig", kubeconfig}, words[1:])...)
			assert.Equal(t, want, strings.Join(got, " "))
			assert.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
		})
	}
}
