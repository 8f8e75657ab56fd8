package admin

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

func TestObjectsAreDescribed(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "web"}
	for want, object := range map[string]client.Object{
		"Secret shop/web":              &corev1.Secret{ObjectMeta: meta},
		"Node web":                     &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "web"}},
		"Tenant shop/web":              &authv1beta1.Tenant{ObjectMeta: meta},
		"VirtualNode shop/web":         &offloadingv1beta1.VirtualNode{ObjectMeta: meta},
		"NamespaceOffloading shop/web": &offloadingv1beta1.NamespaceOffloading{ObjectMeta: meta},
	} {
		assert.Equal(t, want, Describe(object))
	}
}

func TestQuantitiesOfFlags(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want map[string]string
		err  string
	}{
		"none":                        {},
		"some":                        {args: []string{"--cpu", "4", "--memory=8Gi"}, want: map[string]string{"cpu": "4", "memory": "8Gi"}},
		"others":                      {args: []string{"--resource", "nvidia.com/gpu=1,a=2", "--resource", "b=3"}, want: map[string]string{"nvidia.com/gpu": "1", "a": "2", "b": "3"}},
		"one that is none":            {args: []string{"--pods", "many"}, err: `invalid quantity "many" of resource pods`},
		"a negative one":              {args: []string{"--cpu=-1"}, err: `invalid quantity "-1" of resource cpu`},
		"a resource without quantity": {args: []string{"--resource", "a="}, err: "--resource a has no quantity"},
		"one resource twice":          {args: []string{"--cpu", "1", "--resource", "cpu=2"}, err: "exclude each other"},
	} {
		t.Run(name, func(t *testing.T) {
			flags, set := ResourceFlags{}, pflag.NewFlagSet("", pflag.ContinueOnError)
			flags.AddTo(set, "ask for", "the default when absent")
			require.NoError(t, set.Parse(tc.args))
			list, err := flags.Parse()
			if tc.err != "" {
				code, message := output.ExitCode(err)
				assert.Equal(t, output.CodeUsage, code)
				assert.Contains(t, message, tc.err)
				return
			}
			require.NoError(t, err)
			got := map[string]string{}
			for resource, quantity := range list {
				got[string(resource)] = quantity.String()
			}
			assert.Len(t, got, len(tc.want))
			for resource, quantity := range tc.want {
				assert.Equal(t, quantity, got[resource])
			}
		})
	}
}

func TestDataIsDestroyedAfterAnAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		skip  bool
		input string
		code  int
	}{
		"yes": {input: "yes\n", code: output.CodeDone}, "Y": {input: "Y\n", code: output.CodeDone}, "y without a line end": {input: "y", code: output.CodeDone},
		"no": {input: "n\n", code: output.CodeFailed}, "an empty line": {input: "\n", code: output.CodeFailed},
		"nothing": {code: output.CodeUsage}, "skipped": {skip: true, code: output.CodeDone},
	} {
		t.Run(name, func(t *testing.T) {
			in, write, err := os.Pipe()
			require.NoError(t, err)
			_, err = write.WriteString(tc.input)
			require.NoError(t, err)
			require.NoError(t, write.Close())
			null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
			require.NoError(t, err)
			code, _ := output.ExitCode((&Confirmation{skip: tc.skip}).Ask(Streams{Err: null, In: in}, "This deletes it."))
			assert.Equal(t, tc.code, code)
		})
	}
}

func TestSeveralObjectsAreAList(t *testing.T) {
	objects := func() []*corev1.Namespace {
		return []*corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "shop", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}}}}
	}
	var out bytes.Buffer
	require.NoError(t, PrintObjects(&out, output.YAML, objects(), true, nil))
	assert.Equal(t, "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: shop\nspec: {}\nstatus: {}\n", out.String())
	out.Reset()
	require.NoError(t, PrintObjects(&out, output.YAML, objects(), false, nil))
	assert.Contains(t, out.String(), "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Namespace\n")
	assert.Contains(t, out.String(), "kind: List\n")
	out.Reset()
	require.NoError(t, PrintObjects[*corev1.Namespace](&out, output.JSON, nil, false, nil))
	assert.Contains(t, out.String(), `"items": []`)
}

func TestAWaitEndsWithItsCondition(t *testing.T) {
	calls, said := 0, []string{}
	require.NoError(t, Poll(t.Context(), func(what string) { said = append(said, what) }, func() (string, error) {
		calls++
		return map[bool]string{true: "it", false: ""}[calls < 3], nil
	}))
	assert.Equal(t, []string{"waiting for it", "waiting for it"}, said)
	failure := errors.New("forbidden")
	require.ErrorIs(t, Poll(t.Context(), nil, func() (string, error) { return "", failure }), failure)
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	require.NoError(t, err)
	err = RunSteps(t.Context(), null, time.Nanosecond, []Step{{Title: "A step", Run: func(ctx context.Context, waiting Waiting) error {
		return Poll(ctx, waiting, func() (string, error) { return "it", nil })
	}}})
	assert.EqualError(t, err, "waiting for it: not done after --timeout 1ns; the command can be repeated")
}
