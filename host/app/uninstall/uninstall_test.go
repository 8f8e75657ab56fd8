package uninstall_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme"
	"github.com/longshore-dev/longshore/host/app/uninstall"
)

func namespaceOffloading(finalizers ...string) *offloadingv1beta1.NamespaceOffloading {
	return &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "offloading", Finalizers: finalizers}}
}

// run runs all stages on a cluster with an object, in which no component works, and returns what
// is left of the object and what was printed.
func run(t *testing.T, options uninstall.Options, object client.Object, funcs interceptor.Funcs) (finalizers []string, isGone bool, out string, err error) {
	t.Helper()
	kinds, err := scheme.New()
	require.NoError(t, err)
	c := fake.NewClientBuilder().WithScheme(kinds).WithObjects(object).WithInterceptorFuncs(funcs).Build()
	var printed bytes.Buffer
	options.Client, options.Out, options.PollInterval = c, &printed, time.Millisecond
	err = uninstall.Run(t.Context(), options)
	got := namespaceOffloading()
	getErr := c.Get(context.WithoutCancel(t.Context()), client.ObjectKeyFromObject(object), got)
	return got.Finalizers, apierrors.IsNotFound(getErr), printed.String(), err
}

func TestStages(t *testing.T) {
	long, short := uninstall.Options{StageTimeout: time.Minute, Timeout: time.Minute}, uninstall.Options{StageTimeout: 20 * time.Millisecond, Timeout: time.Minute}
	const ours, other = offloadingv1beta1.NamespaceOffloadingFinalizer, "example.com/of-the-user"
	for name, tc := range map[string]struct {
		options    uninstall.Options
		finalizers []string
		wantLeft   []string
		want       string
	}{
		"what has no finalizer is deleted":               {options: long},
		"a finalizer whose component does not run goes":  {options: short, finalizers: []string{ours}, want: "lost its finalizers"},
		"it goes at once when the time of all is over":   {options: uninstall.Options{StageTimeout: time.Hour, Timeout: time.Millisecond}, finalizers: []string{ours}, want: "lost its finalizers"},
		"a finalizer of another stays, and is printed":   {options: short, finalizers: []string{other}, wantLeft: []string{other}, want: "remains, finalizers: [\"example.com/of-the-user\"]"},
		"beside ours, too; then the object waits for it": {options: short, finalizers: []string{ours, other}, wantLeft: []string{other}, want: "lost its finalizers"},
	} {
		t.Run(name, func(t *testing.T) {
			left, isGone, out, err := run(t, tc.options, namespaceOffloading(tc.finalizers...), interceptor.Funcs{})
			require.NoError(t, err)
			assert.Equal(t, tc.wantLeft, left)
			assert.Equal(t, tc.wantLeft == nil, isGone)
			assert.Contains(t, out, tc.want)
		})
	}
}

func TestTransientErrorsAreTriedAgain(t *testing.T) {
	failures := 3
	_, isGone, _, err := run(t, uninstall.Options{StageTimeout: time.Minute, Timeout: time.Minute}, namespaceOffloading(), interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			if failures--; failures >= 0 {
				return apierrors.NewServiceUnavailable("the API server is busy")
			}
			return c.Delete(ctx, object, options...)
		},
	})
	require.NoError(t, err)
	assert.True(t, isGone)
}

func TestMissingRightsAreReported(t *testing.T) {
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "namespaceoffloadings"}, "offloading", errors.New("no right"))
	_, _, _, err := run(t, uninstall.Options{StageTimeout: 20 * time.Millisecond, Timeout: time.Minute}, namespaceOffloading(), interceptor.Funcs{
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return denied },
	})
	require.ErrorIs(t, err, denied)
}
