package kubelet

import (
	"context"
	"errors"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// cached is a manager whose cache is a client.
type cached struct {
	ctrl.Manager

	client client.Client
}

func (m cached) GetClient() client.Client { return m.client }

func TestInvalidArgumentsInASharedProcess(t *testing.T) {
	vn := &offloadingv1beta1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "milan-1", Annotations: map[string]string{offloadingv1beta1.SharedProcessKey: "vk-shared-1"}},
		Spec:       offloadingv1beta1.VirtualNodeSpec{ClusterID: "milan", Template: &offloadingv1beta1.DeploymentTemplate{}},
	}
	container := corev1.Container{Name: "virtual-kubelet", Image: "longshore", Args: []string{"--foreign-kubeconfig-secret-name=k"}}
	vn.Spec.Template.Spec.Template.Spec.Containers = []corev1.Container{container}
	scheme, err := newScheme()
	require.NoError(t, err)
	refused := errors.New("the API server is busy")
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(vn).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			if refused != nil {
				return refused
			}
			return c.Create(ctx, object, opts...)
		},
	}).Build()
	options := DefaultOptions()
	options.SharedProcess, options.ForeignClusterID, options.TenantNamespace = "vk-shared-1", "milan", "tenant"
	s := &supervisor{
		shared: &shared{client: c, manager: cached{client: c}}, options: &options, kick: make(chan struct{}, 1),
		members: map[string]*member{}, recorded: map[string]string{},
	}
	logged := ""
	ctx := ctrl.LoggerInto(t.Context(), funcr.New(func(_, args string) { logged += args + "\n" }, funcr.Options{}))
	desired, err := s.desired(ctx)
	require.NoError(t, err)
	running, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.members["milan-1"] = &member{options: desired["milan-1"], cancel: cancel, ended: make(chan struct{})}

	container.Args = append(container.Args, "--create-node=maybe")
	vn.Spec.Template.Spec.Template.Spec.Containers = []corev1.Container{container}
	require.NoError(t, c.Update(t.Context(), vn))
	recorded := func() []corev1.Event {
		list := &corev1.EventList{}
		require.NoError(t, c.List(t.Context(), list))
		return list.Items
	}
	for range 2 {
		desired, err = s.desired(ctx)
		require.NoError(t, err)
		assert.Empty(t, desired)
		s.stop(desired)
	}
	require.NoError(t, running.Err(), "the virtual node runs with the arguments that it has")
	assert.Contains(t, logged, `argument \"--create-node=maybe\" of spec.template`, "the cause is logged, whatever becomes of the event")
	assert.Empty(t, recorded())

	refused = nil
	for range 2 {
		_, err = s.desired(ctx)
		require.NoError(t, err)
	}
	require.Len(t, recorded(), 1, "an event that could not be recorded is tried again")
	assert.EqualValues(t, 1, recorded()[0].Count)
	assert.Contains(t, recorded()[0].Message, `argument "--create-node=maybe" of spec.template`)
	assert.Contains(t, recorded()[0].Message, "Correct spec.template")
	assert.NotContains(t, recorded()[0].Message, "tried again")

	require.NoError(t, c.Delete(t.Context(), vn))
	desired, err = s.desired(ctx)
	require.NoError(t, err)
	s.stop(desired)
	assert.Error(t, running.Err(), "a VirtualNode that is gone is not served")
}
