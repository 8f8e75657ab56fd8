package chart_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/kube"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
)

const (
	releaseName  = "longshore"
	disabledName = "default-metadatafilter"
	templateName = "virtual-kubelet-default"
	markerName   = "marker"
)

var (
	policyKind   = schema.GroupVersionKind{Group: "policy.longshore.dev", Version: "v1alpha1", Kind: "OffloadingPolicy"}
	templateKind = schema.GroupVersionKind{Group: "offloading.liqo.io", Version: "v1beta1", Kind: "VkOptionsTemplate"}
	crdKind      = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

	digestLine = regexp.MustCompile(`(?m)^ +longshore\.dev/spec-digest: .*\n`)
)

// olderCRDs is the template with which the chart once installed its CRDs.
const olderCRDs = `{{- range $path, $_ := .Files.Glob "crds/*.yaml" }}
{{- $crd := $.Files.Get $path | fromYaml }}
---
{{ merge (dict "metadata" (dict "annotations" (merge (dict "helm.sh/resource-policy" "keep") $crd.metadata.annotations))) $crd | toYaml }}
{{- end }}
`

// release is a Helm release of the chart on a real control plane.
type release struct {
	admin      client.WithWatch
	kubeconfig string
	cache      string
}

func newRelease(t *testing.T) *release {
	t.Helper()
	plane := planetest.ForTest(t, "rome", planetest.Own)
	admin, err := client.NewWithWatch(plane.RESTConfig(), client.Options{})
	require.NoError(t, err)
	return &release{admin: admin, kubeconfig: plane.Kubeconfig(), cache: t.TempDir()}
}

// config returns a new configuration, as each command of Helm has.
func (r *release) config(t planetest.T) *action.Configuration {
	t.Helper()
	flags := genericclioptions.NewConfigFlags(true).WithWrapConfigFn(func(config *rest.Config) *rest.Config {
		config.QPS = -1
		return config
	})
	flags.KubeConfig, flags.Namespace, flags.CacheDir = &r.kubeconfig, ptr.To("longshore"), &r.cache
	config := action.NewConfiguration()
	require.NoError(t, config.Init(flags, "longshore", "secrets"))
	return config
}

// currentChart returns the chart of this tree.
func currentChart(t *testing.T) *chartv2.Chart {
	t.Helper()
	chrt, err := loader.Load("../../../charts/longshore")
	require.NoError(t, err)
	return chrt
}

// olderChart returns the chart as it was once: the CRDs have no digests and are
// objects of the release, and the default objects are hooks. The CRDs are in crds/ as well,
// so that Helm waits for them.
func olderChart(t *testing.T) *chartv2.Chart {
	t.Helper()
	chrt := currentChart(t)
	for _, file := range chrt.Files {
		if strings.HasPrefix(file.Name, "crds/") {
			require.Regexp(t, digestLine, string(file.Data))
			file.Data = digestLine.ReplaceAll(file.Data, nil)
		}
	}
	setTemplate(t, chrt, "templates/crds.yaml", func(string) string { return olderCRDs })
	turnDefaultsIntoHooks(t, chrt)
	return chrt
}

func turnDefaultsIntoHooks(t *testing.T, chrt *chartv2.Chart) {
	t.Helper()
	setTemplate(t, chrt, "templates/defaults.yaml", func(content string) string {
		return strings.ReplaceAll(content, "\n  labels:\n", `
  annotations:
    helm.sh/hook: post-install,post-upgrade
    helm.sh/hook-delete-policy: before-hook-creation
  labels:
`)
	})
}

func setTemplate(t *testing.T, chrt *chartv2.Chart, name string, change func(string) string) {
	t.Helper()
	at := slices.IndexFunc(chrt.Templates, func(file *common.File) bool { return file.Name == name })
	require.GreaterOrEqual(t, at, 0, name)
	before := string(chrt.Templates[at].Data)
	chrt.Templates[at].Data = []byte(change(before))
	require.NotEqual(t, before, string(chrt.Templates[at].Data), name)
}

// lifecycleValues disable a default policy. No connection to the webhook is possible, so
// that the API server does not wait for it.
func lifecycleValues(tag string) map[string]any {
	return map[string]any{
		"clusterID": "rome",
		"image":     map[string]any{"tag": tag},
		"policies":  map[string]any{"metadataFilter": map[string]any{"mode": "Disabled"}},
		"webhook":   map[string]any{"service": map[string]any{"type": "ExternalName", "externalName": "127.0.0.1"}},
	}
}

func (r *release) install(t planetest.T, chrt *chartv2.Chart, tag string) error {
	t.Helper()
	return r.installWith(t, chrt, lifecycleValues(tag), false)
}

func (r *release) installWith(t planetest.T, chrt *chartv2.Chart, values map[string]any, skipCRDs bool) error {
	t.Helper()
	install := action.NewInstall(r.config(t))
	install.ReleaseName, install.Namespace, install.CreateNamespace = releaseName, "longshore", true
	install.SkipCRDs = skipCRDs
	install.WaitStrategy, install.TakeOwnership = kube.HookOnlyStrategy, true
	_, err := install.RunWithContext(t.Context(), chrt, values)
	return err
}

// uninstall runs helm uninstall, and the Job of its hook, whose output is what was printed.
func (r *release) uninstall(t *testing.T) (printed string, err error) {
	t.Helper()
	uninstall := action.NewUninstall(r.config(t))
	uninstall.WaitStrategy = kube.HookOnlyStrategy
	done := make(chan error, 1)
	go func() {
		_, err := uninstall.Run(releaseName)
		done <- err
	}()
	printed = r.runUninstallJob(t)
	return printed, <-done
}

func (r *release) upgrade(t *testing.T, chrt *chartv2.Chart, tag string, takeOwnership bool) error {
	t.Helper()
	return r.upgradeWith(t, chrt, lifecycleValues(tag), takeOwnership)
}

func (r *release) upgradeWith(t *testing.T, chrt *chartv2.Chart, values map[string]any, takeOwnership bool) error {
	t.Helper()
	upgrade := action.NewUpgrade(r.config(t))
	upgrade.Namespace, upgrade.WaitStrategy, upgrade.TakeOwnership = "longshore", kube.HookOnlyStrategy, takeOwnership
	_, err := upgrade.RunWithContext(t.Context(), releaseName, chrt, values)
	return err
}

func (r *release) rollback(t *testing.T, revision int) error {
	t.Helper()
	rollback := action.NewRollback(r.config(t))
	rollback.Version, rollback.WaitStrategy = revision, kube.HookOnlyStrategy
	return rollback.Run(releaseName)
}

// revision returns the number of the release's last revision, failed ones included.
func (r *release) revision(t *testing.T) int {
	t.Helper()
	history, err := r.config(t).Releases.History(releaseName)
	require.NoError(t, err)
	return len(history)
}

// applyCRDs follows the chart's notes: kubectl apply --server-side --force-conflicts.
func (r *release) applyCRDs(t *testing.T, chrt *chartv2.Chart) {
	t.Helper()
	for _, crd := range chrt.CRDObjects() {
		object := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal(crd.File.Data, &object.Object))
		require.NoError(t, r.admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("kubectl"), client.ForceOwnership))
	}
}

func (r *release) list(t *testing.T, kind schema.GroupVersionKind) *unstructured.UnstructuredList {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	require.NoError(t, r.admin.List(t.Context(), list))
	return list
}

// marker returns an object of the kind that does not belong to the release.
func marker(kind schema.GroupVersionKind) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"module": map[string]any{"builtIn": "default"}}}}
	if kind == templateKind {
		object.Object["spec"] = map[string]any{"createNode": true, "disableNetworkCheck": false, "metricsEnabled": false, "containerImage": "marker"}
		object.SetNamespace("longshore")
	}
	object.SetGroupVersionKind(kind)
	object.SetName(markerName)
	return object
}

// events returns everything that happened to objects of the kind while do ran. It reads the
// history from the list before up to a change of a marker after.
func (r *release) events(t *testing.T, do func(), kinds ...schema.GroupVersionKind) []watch.Event {
	t.Helper()
	versions := map[schema.GroupVersionKind]string{}
	for _, kind := range kinds {
		require.NoError(t, client.IgnoreAlreadyExists(r.admin.Create(t.Context(), marker(kind))))
		versions[kind] = r.list(t, kind).GetResourceVersion()
	}
	do()
	var all []watch.Event
	for _, kind := range kinds {
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"seen":%q}}}`, versions[kind])
		require.NoError(t, r.admin.Patch(t.Context(), marker(kind), client.RawPatch(types.MergePatchType, []byte(patch))))
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		watcher, err := r.admin.Watch(t.Context(), list, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: versions[kind]}})
		require.NoError(t, err)
		for event := range watcher.ResultChan() {
			object, ok := event.Object.(*unstructured.Unstructured)
			require.True(t, ok, "%v", event.Object)
			if object.GetName() == markerName {
				break
			}
			all = append(all, event)
		}
		watcher.Stop()
	}
	return all
}

// requireInPlace runs a change of the release. None of the default objects may be deleted or
// created again, and none may be in another mode than that of the values.
func (r *release) requireInPlace(t *testing.T, do func() error, images ...string) {
	t.Helper()
	before := map[string]types.UID{}
	for _, kind := range []schema.GroupVersionKind{policyKind, templateKind} {
		for _, object := range r.list(t, kind).Items {
			before[object.GetName()] = object.GetUID()
		}
	}
	events := r.events(t, func() { require.NoError(t, do()) }, policyKind, templateKind)
	for _, event := range events {
		object := event.Object.(*unstructured.Unstructured)
		assert.Equal(t, watch.Modified, event.Type, object.GetName())
		assert.Equal(t, before[object.GetName()], object.GetUID(), object.GetName())
		mode, _, _ := unstructured.NestedString(object.Object, "spec", "mode")
		image, _, _ := unstructured.NestedString(object.Object, "spec", "containerImage")
		switch object.GetName() {
		case templateName:
			assert.Contains(t, images, image)
		case disabledName:
			assert.Equal(t, "Disabled", mode)
		default:
			assert.Equal(t, "Enforce", mode, object.GetName())
		}
	}
	require.Len(t, r.list(t, policyKind).Items, 5, "four default policies and the marker")
	assert.Equal(t, images[len(images)-1], r.templateImage(t))
}

func (r *release) templateImage(t *testing.T) string {
	t.Helper()
	template := &unstructured.Unstructured{}
	template.SetGroupVersionKind(templateKind)
	require.NoError(t, r.admin.Get(t.Context(), client.ObjectKey{Namespace: "longshore", Name: templateName}, template))
	image, _, _ := unstructured.NestedString(template.Object, "spec", "containerImage")
	return image
}

// requireRefused runs a change of the release that is refused and must change nothing.
func (r *release) requireRefused(t *testing.T, do func() error, sentences ...string) {
	t.Helper()
	before := r.revision(t)
	deployments := r.generations(t)
	events := r.events(t, func() {
		err := do()
		for _, sentence := range sentences {
			require.ErrorContains(t, err, sentence)
		}
	}, policyKind, templateKind)
	assert.Empty(t, events)
	assert.Equal(t, before, r.revision(t))
	assert.Equal(t, deployments, r.generations(t))
}

// generations returns the generation of each Deployment, which counts changes of its spec.
func (r *release) generations(t *testing.T) map[string]int64 {
	t.Helper()
	generations := map[string]int64{}
	for _, deployment := range r.list(t, schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}).Items {
		generations[deployment.GetName()] = deployment.GetGeneration()
	}
	require.Len(t, generations, 2)
	return generations
}

func (r *release) crdUIDs(t *testing.T) map[string]types.UID {
	t.Helper()
	uids := map[string]types.UID{}
	for _, crd := range r.list(t, crdKind).Items {
		uids[crd.GetName()] = crd.GetUID()
	}
	return uids
}

// TestAReleaseIsUpgradedAndRolledBackInPlace runs Helm's own code, as its command line does
// without --wait.
func TestAReleaseIsUpgradedAndRolledBackInPlace(t *testing.T) {
	t.Parallel()
	r := newRelease(t)
	t.Run("on a new cluster it is installed, at once or when the CRDs are served", func(t *testing.T) {
		chrt := currentChart(t)
		planetest.Until(t, func(look planetest.T) bool {
			err := r.install(look, chrt, "1.0")
			if err != nil {
				require.ErrorContains(look, err, "yet: run helm install again; if it still fails, run kubectl apply --server-side")
			}
			return err == nil
		}, established, poll)
		assert.Len(t, r.list(t, policyKind).Items, 4)
	})
	crds := r.crdUIDs(t)
	t.Run("the CRDs stay when it is uninstalled", func(t *testing.T) {
		_, err := r.uninstall(t)
		require.NoError(t, err)
		assert.Empty(t, r.list(t, policyKind).Items)
		assert.Equal(t, crds, r.crdUIDs(t))
	})
	require.NoError(t, r.install(t, olderChart(t), "1.0"))
	require.Equal(t, "longshore/longshore:1.0", r.templateImage(t))

	t.Run("an upgrade beside CRDs without digests is refused", func(t *testing.T) {
		r.requireRefused(t, func() error { return r.upgrade(t, currentChart(t), "1.0", false) },
			"the cluster has no or other versions of the CustomResourceDefinitions ", " foreignclusters.core.liqo.io, ",
			"run kubectl apply --server-side --force-conflicts -f crds/ in the chart's folder, and then helm upgrade again")
	})
	r.applyCRDs(t, currentChart(t))
	t.Run("default objects of the older chart are not adopted without --take-ownership", func(t *testing.T) {
		r.requireRefused(t, func() error { return r.upgrade(t, currentChart(t), "1.0", false) },
			"exists and cannot be imported into the current release: invalid ownership metadata",
			`missing key "meta.helm.sh/release-name"`)
	})
	t.Run("with it they are adopted in place, and no CRD is deleted", func(t *testing.T) {
		r.requireInPlace(t, func() error { return r.upgrade(t, currentChart(t), "1.0", true) }, "longshore/longshore:1.0")
		assert.Equal(t, crds, r.crdUIDs(t))
	})
	adopted := r.revision(t)
	t.Run("an upgrade changes them in place", func(t *testing.T) {
		r.requireInPlace(t, func() error { return r.upgrade(t, currentChart(t), "2.0", false) }, "longshore/longshore:1.0", "longshore/longshore:2.0")
	})
	t.Run("a rollback brings the older image back, in place, and takes no fields from controllers", func(t *testing.T) {
		for _, name := range []string{"longshore-virtual-kubelet-namespace", "liqo-virtual-kubelet-remote"} {
			planetest.Until(t, func(t planetest.T) bool {
				role := &rbacv1.ClusterRole{}
				require.NoError(t, r.admin.Get(t.Context(), client.ObjectKey{Name: name}, role))
				return len(role.Rules) > 0
			}, established, poll, "the rules of ClusterRole %s are aggregated", name)
		}
		r.requireInPlace(t, func() error { return r.rollback(t, adopted) }, "longshore/longshore:2.0", "longshore/longshore:1.0")
	})
	t.Run("an upgrade beside another version of a CRD is refused until the CRDs are applied", func(t *testing.T) {
		crd := &unstructured.Unstructured{}
		crd.SetGroupVersionKind(crdKind)
		crd.SetName("renews.authentication.liqo.io")
		patch := `{"metadata":{"annotations":{"longshore.dev/spec-digest":"other"}}}`
		require.NoError(t, r.admin.Patch(t.Context(), crd, client.RawPatch(types.MergePatchType, []byte(patch))))
		r.testGuard(t, currentChart(t), crd.GetName(), "3.0")
	})
	t.Run("so is one that adds a CRD", func(t *testing.T) {
		chrt := currentChart(t)
		at := slices.IndexFunc(chrt.Files, func(file *common.File) bool { return file.Name == "crds/renews.yaml" })
		require.GreaterOrEqual(t, at, 0)
		added := strings.NewReplacer("renew", "addition", "Renew", "Addition").Replace(string(chrt.Files[at].Data))
		chrt.Files = append(chrt.Files, &common.File{Name: "crds/additions.yaml", Data: []byte(added)})
		r.testGuard(t, chrt, "additions.authentication.liqo.io", "4.0")
	})
}

// testGuard upgrades beside a CRD that is not the chart's.
func (r *release) testGuard(t *testing.T, chrt *chartv2.Chart, crd, tag string) {
	t.Helper()
	image := r.templateImage(t)
	r.requireRefused(t, func() error { return r.upgrade(t, chrt, tag, false) },
		"the cluster has no or other versions of the CustomResourceDefinitions "+crd+":")
	r.applyCRDs(t, chrt)
	r.requireInPlace(t, func() error { return r.upgrade(t, chrt, tag, false) }, image, "longshore/longshore:"+tag)
}
