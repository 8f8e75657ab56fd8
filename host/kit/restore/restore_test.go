package restore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/longshore-dev/longshore/host/kit/restore"
)

var errUnavailable = errors.New("unavailable")

func TestDetect(t *testing.T) {
	for name, tc := range map[string]struct {
		options  metav1.ListOptions
		server   string
		err      error
		wantGone bool
		want     int // lists
	}{
		"the server is ahead":                         {options: metav1.ListOptions{ResourceVersion: "10"}, server: "11", want: 1},
		"the server has not changed":                  {options: metav1.ListOptions{ResourceVersion: "10"}, server: "10", want: 1},
		"the server was restored":                     {options: metav1.ListOptions{ResourceVersion: "10"}, server: "9", wantGone: true, want: 1},
		"numbers are not compared as texts":           {options: metav1.ListOptions{ResourceVersion: "9"}, server: "10", want: 1},
		"a watch that begins with all objects":        {options: metav1.ListOptions{ResourceVersion: "10", SendInitialEvents: ptr.To(true)}, server: "9"},
		"a watch from no version":                     {server: "9", want: 1},
		"a server that is not known to be ahead":      {options: metav1.ListOptions{ResourceVersion: "10"}, err: errUnavailable, want: 1},
		"a server with versions that are not numbers": {options: metav1.ListOptions{ResourceVersion: "10"}, server: "x", want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			lists, watches := 0, 0
			detecting := cache.ToListerWatcherWithContext(restore.Detect(&cache.ListWatch{
				ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
					lists++
					return &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: tc.server}}, tc.err
				},
				WatchFuncWithContext: func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
					watches++
					assert.Equal(t, tc.options, options)
					return watch.NewEmptyWatch(), nil
				},
			}))
			_, err := detecting.WatchWithContext(t.Context(), tc.options)
			assert.Equal(t, tc.want, lists)
			if tc.err != nil {
				require.ErrorIs(t, err, tc.err)
				assert.Zero(t, watches, "it could accept the watch a moment later")
				return
			}
			if tc.wantGone {
				assert.True(t, apierrors.IsResourceExpired(err), "%v", err)
				assert.Zero(t, watches)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, 1, watches)
		})
	}
}

// A server that was restored while it could not be reached may have reached the resource version
// again.
func TestAWatchDoesNotContinueAfterAnOutage(t *testing.T) {
	for name, tc := range map[string]struct {
		failure error
		want    bool
	}{
		"the server was down":            {failure: errUnavailable},
		"the server was busy":            {failure: apierrors.NewTooManyRequests("busy", 1), want: true},
		"the server has not started yet": {failure: apierrors.NewForbidden(corev1.Resource("configmaps"), "", nil), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			failing := false
			detecting := cache.ToListerWatcherWithContext(restore.Detect(&cache.ListWatch{
				ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
					if failing {
						return nil, tc.failure
					}
					return &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "12"}}, nil
				},
				WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewEmptyWatch(), nil },
			}))
			resume := func() error {
				_, err := detecting.WatchWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "10"})
				return err
			}
			require.NoError(t, resume())
			failing = true
			require.ErrorIs(t, resume(), tc.failure)
			failing = false
			if tc.want {
				require.NoError(t, resume())
				return
			}
			assert.True(t, apierrors.IsResourceExpired(resume()))
			require.NoError(t, resume(), "the list that follows is recent")
		})
	}
}
