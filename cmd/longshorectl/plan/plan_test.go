package plan_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output/outputtest"
	"github.com/longshore-dev/longshore/cmd/longshorectl/plan"
	"github.com/longshore-dev/longshore/host/planner"
)

// cacheDir keeps the compiled built-in policies for all tests.
var cacheDir string

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "longshorectl")
	if err != nil {
		panic(err)
	}
	cacheDir = dir
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// run is the command in a pipe.
func run(t *testing.T, in io.Reader, args ...string) (out string, code int, message string) {
	t.Helper()
	var buffer, progress bytes.Buffer
	command := plan.Command(in, &buffer, func(string) string { return "" }, nil)
	command.SilenceErrors, command.SilenceUsage = true, true
	command.SetErr(&progress)
	if !slices.ContainsFunc(args, func(arg string) bool { return arg == "--kubeconfig" || arg == "--context" }) {
		args = append(args, "--offline") // The user may have a kubeconfig.
	}
	command.SetArgs(append([]string{"--policy-cache-dir", cacheDir}, args...))
	code, message = output.ExitCode(command.ExecuteContext(t.Context()))
	return buffer.String(), code, message
}

// files are those of docs/howto/plan-before-you-offload.md.
const files = "../../../docs/howto/plan"

var shop = []string{"-f", files + "/app.yaml", "-n", "shop", "--namespace-offloading", files + "/offloading.yaml", "--virtual-node", files + "/nodes.yaml", "--cluster-id", "rome"}

var color = regexp.MustCompile("\x1b\\[[0-9;]*m")

func TestWhatThePlanPrints(t *testing.T) {
	for _, format := range []string{"table", "wide"} {
		t.Run(format, func(t *testing.T) {
			out, code, message := run(t, nil, append(shop, "-o", format)...)
			assert.Equal(t, output.CodeDenied, code, "a pod would not run")
			assert.Empty(t, message)
			outputtest.Golden(t, format+".txt", out)
			for line := range strings.Lines(out) {
				assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 80, line)
			}
		})
	}
}

func TestATerminalHasTheSameTextInColor(t *testing.T) {
	result, err := plan.Run(t.Context(), plan.Options{
		Files: []string{files + "/app.yaml"}, Facts: []string{files + "/offloading.yaml", files + "/nodes.yaml"}, Namespace: "shop", HomeClusterID: "rome", RuntimeClassName: "liqo", CacheDir: cacheDir,
	})
	require.NoError(t, err)
	for format, write := range map[string]func(io.Writer, *plan.Result, output.Style, int) error{"table": plan.PrintTable, "wide": plan.PrintWide} {
		t.Run(format, func(t *testing.T) {
			var colored, pipe bytes.Buffer
			require.NoError(t, write(&colored, result, output.Colored(true), 80))
			require.NoError(t, write(&pipe, result, output.Colored(false), 80))
			assert.Contains(t, colored.String(), "\x1b[31mPending\x1b[0m")
			assert.Contains(t, colored.String(), "\x1b[32mOffloadable\x1b[0m")
			assert.Equal(t, pipe.String(), color.ReplaceAllString(colored.String(), ""))
		})
	}
}

func TestThePlanFitsATerminal(t *testing.T) {
	nodes, err := os.ReadFile(files + "/nodes.yaml")
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "nodes.yaml")
	require.NoError(t, os.WriteFile(path, bytes.ReplaceAll(nodes, []byte("name: milan"), []byte("name: "+outputtest.Long)), 0o600))
	result, err := plan.Run(t.Context(), plan.Options{
		Files: []string{files + "/app.yaml"}, Facts: []string{files + "/offloading.yaml", path}, Namespace: "shop", HomeClusterID: "rome", RuntimeClassName: "liqo", CacheDir: cacheDir,
	})
	require.NoError(t, err)
	for name, write := range map[string]func(io.Writer, *plan.Result, output.Style, int) error{"long": plan.PrintTable, "long-wide": plan.PrintWide} {
		outputtest.Table(t, name, false, func(w io.Writer, style output.Style) error { return write(w, result, style, 80) })
	}
}

func TestThePlanAsJSON(t *testing.T) {
	data, err := os.ReadFile(files + "/app.yaml")
	require.NoError(t, err)
	out, code, _ := run(t, bytes.NewReader(data), "-f", "-", "-n", "shop", "-o", "json")
	assert.Equal(t, output.CodeDenied, code)
	var result plan.Result
	require.NoError(t, json.Unmarshal([]byte(out), &result))
	require.Len(t, result.Plans, 3)
	web := result.Plans[0]
	assert.Equal(t, "deployment/web", web.String())
	assert.Equal(t, planner.Offloadable, web.Result)
	assert.Len(t, web.Assumed, 3, "without files about Longshore its state is assumed")
	require.NotNil(t, web.ShadowPod)
	assert.Equal(t, "shop-consumer", web.ShadowPod.Namespace)
	assert.Empty(t, web.ShadowPod.Spec.Pod.PriorityClassName)
}

func TestFieldsThatNoKindHasAreNamed(t *testing.T) {
	const pods = "apiVersion: v1\nkind: List\nitems:\n" +
		"- {apiVersion: v1, kind: Pod, metadata: {name: mistyped}, spec: {containers: [{name: web, imagee: nginx}]}}\n" +
		"- {apiVersion: v1, kind: Pod, metadata: {name: ignored}, spec: {toleration: [], containers: [{name: web, image: nginx}]}}\n"
	out, code, message := run(t, strings.NewReader(pods), "-f", "-", "-o", "json")
	require.Equal(t, output.CodeDenied, code, message)
	var result plan.Result
	require.NoError(t, json.Unmarshal([]byte(out), &result))
	assert.Equal(t, []string{
		`item 1 of document 1 of "-": unknown field "spec.containers[0].imagee"`, `item 2 of document 1 of "-": unknown field "spec.toleration"`,
	}, result.Warnings)
	require.Len(t, result.Plans, 2)
	assert.Equal(t, planner.Refused, result.Plans[0].Result)
	assert.Equal(t, "Invalid", result.Plans[0].Reason.Reason)
	assert.Equal(t, planner.Offloadable, result.Plans[1].Result, "kubectl refuses the field, and other clients drop it")

	out, _, _ = run(t, strings.NewReader(pods), "-f", "-")
	assert.Contains(t, out, "Fields that no pod gets")
	assert.Contains(t, strings.Join(strings.Fields(out), " "), "spec.containers[0].image: Required value")
}

func TestNetworkPoliciesThatStayAreNamed(t *testing.T) {
	const policy = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: deny, namespace: shop}\nspec: {podSelector: {}}\n"
	out, _, _ := run(t, strings.NewReader(policy), append(slices.Clone(shop), "-f", "-")...)
	assert.Contains(t, strings.Join(strings.Fields(out), " "), "deployment/web (warning) and 1 more NetworkPolicies that select the pod do not apply in cluster milan, because they are not reflected: deny.")
	out, _, _ = run(t, nil, shop...)
	assert.NotContains(t, out, "NetworkPolicies")
}

func TestPoliciesOfAFolderDecide(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	filter := "apiVersion: policy.longshore.dev/v1alpha1\nkind: OffloadingPolicy\nmetadata: {name: default-metadatafilter}\nspec:\n  module: {builtIn: default}\n  settings: "
	write("filter.yaml", filter+`{rules: [{drop: ["app"]}]}`)
	out, code, message := run(t, nil, append(shop, "--policies", folder, "-o", "json")...)
	require.Equal(t, output.CodeDenied, code, message)
	var result plan.Result
	require.NoError(t, json.Unmarshal([]byte(out), &result))
	assert.NotContains(t, result.Plans[0].ShadowPod.Labels, "app")
	assert.Contains(t, result.Plans[0].Changes, planner.Change{Stage: planner.Forging, What: "remove /metadata/labels[app]", Policy: "default-metadatafilter"})

	write("filter.yaml", filter+`{rules: [{drop: ["app"], keep: ["app"]}]}`)
	out, _, _ = run(t, nil, append(shop, "--policies", folder)...)
	assert.Contains(t, out, `OffloadingPolicy "default-metadatafilter" is not used`)

	write("missing.yaml", "apiVersion: policy.longshore.dev/v1alpha1\nkind: OffloadingPolicy\nmetadata: {name: mirror}\nspec:\n  module: {configMap: {namespace: longshore, name: mirror}}\n")
	out, _, _ = run(t, nil, append(shop, "--policies", folder)...)
	assert.Contains(t, strings.Join(strings.Fields(out), " "), "ConfigMap longshore/mirror does not exist")
}

func TestErrorsOfTheCommandLine(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken.yaml")
	require.NoError(t, os.WriteFile(broken, []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: [web]}\n"), 0o600))
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no file":                {nil, output.CodeUsage, "want the files with the pods"},
		"an argument":            {[]string{"app.yaml"}, output.CodeUsage, `unexpected argument "app.yaml"`},
		"a file that is missing": {[]string{"-f", "none.yaml"}, output.CodeFailed, "no such file"},
		"a broken file":          {[]string{"-f", broken}, output.CodeFailed, `decoding document 1 of "` + broken},
		"no pods":                {[]string{"-f", files + "/nodes.yaml"}, output.CodeFailed, "the files have no Pod, Deployment"},
		"an unknown node":        {append([]string{"--node", "palermo"}, shop...), output.CodeFailed, `there is no virtual node "palermo"`},
		"a missing kubeconfig":   {[]string{"-f", files + "/app.yaml", "--kubeconfig", "none"}, output.CodeFailed, "no such file"},
		"offline in a cluster":   {[]string{"-f", files + "/app.yaml", "--kubeconfig", "none", "--offline"}, output.CodeUsage, "--offline reads no cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			_, code, message := run(t, nil, tc.args...)
			assert.Equal(t, tc.code, code, message)
			assert.Contains(t, message, tc.want)
		})
	}
}

// A user expects the cluster of kubectl.
func TestTheClusterIsThatOfKubectl(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	command := plan.Command(nil, io.Discard, func(string) string { return "" }, nil)
	command.SilenceErrors, command.SilenceUsage = true, true
	command.SetArgs(append([]string{"--policy-cache-dir", cacheDir}, shop...))
	assert.ErrorContains(t, command.ExecuteContext(t.Context()), "no kubeconfig names a cluster: set --kubeconfig or KUBECONFIG; --offline reads files only")
	_, code, message := run(t, nil, shop...)
	assert.Equal(t, output.CodeDenied, code, message)
}

// Every pod template of an application is planned: those of the how-to, and the real ones that the
// machine has.
func TestRealApplications(t *testing.T) {
	real, err := filepath.Glob(filepath.Join("..", "..", "..", "..", "shared", "fixtures", "*.yaml"))
	require.NoError(t, err)
	for _, file := range append(real, files+"/app.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			templates := len(regexp.MustCompile(`(?m)^ *(- )?kind: (Pod|Deployment|StatefulSet|DaemonSet|Job|CronJob|ReplicaSet)$`).FindAllIndex(data, -1))
			result, err := plan.Run(t.Context(), plan.Options{Files: []string{file}, RuntimeClassName: "liqo", CacheDir: cacheDir})
			require.NoError(t, err)
			assert.Len(t, result.Plans, templates)
			for _, planned := range result.Plans {
				require.NotNil(t, planned.AdmittedPod, "%s", planned)
				if planned.Result != planner.Offloadable {
					assert.NotNil(t, planned.Reason, "%s", planned)
					continue
				}
				require.NotNil(t, planned.ShadowPod, "%s", planned)
				assert.Len(t, planned.ShadowPod.Spec.Pod.Containers, len(planned.AdmittedPod.Spec.Containers))
			}
		})
	}
}
