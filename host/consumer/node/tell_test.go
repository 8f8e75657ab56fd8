package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// listener hears what a Node tells.
type listener struct {
	mu   sync.Mutex
	told []string
}

func (l *listener) tell(_ context.Context, vn *offloadingv1beta1.VirtualNode, reason Reason, message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = append(l.told, fmt.Sprintf("%s %s: %s", vn.Name, reason, message))
}

func (l *listener) heard() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.told...)
}

// refuseLabel is an API server that takes no Node with the label "bad".
func refuseLabel(clientset *fake.Clientset, asked chan<- struct{}) {
	clientset.PrependReactor("create", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		node, ok := action.(clienttesting.CreateAction).GetObject().(*corev1.Node)
		if !ok || node.Labels["bad"] == "" {
			return false, nil, nil
		}
		select {
		case asked <- struct{}{}:
		default:
		}
		return true, nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Node").GroupKind(), node.Name,
			field.ErrorList{field.Invalid(field.NewPath("metadata", "labels"), "bad", "must be good")})
	})
}

func TestANodeThatIsRefusedIsToldOnceAndMadeWhenItIsAnother(t *testing.T) {
	clientset := fake.NewClientset()
	asked := make(chan struct{}, 100)
	refuseLabel(clientset, asked)
	heard := &listener{}
	labeled := func(value, other string) *offloadingv1beta1.VirtualNode {
		vn := virtualNode()
		vn.Spec.Labels = map[string]string{"other": other}
		if value != "" {
			vn.Spec.Labels["bad"] = value
		}
		return vn
	}
	n := newNode(t, clientset, func(o *Options) { o.VirtualNode, o.Tell = labeled("yes", "1"), heard.tell })
	run(t, n)
	<-asked
	require.Eventually(t, func() bool { return len(heard.heard()) == 1 }, patience, time.Millisecond)
	assert.Contains(t, heard.heard()[0], `milan-1 NodeRefused: The API server refuses the Node, correct the VirtualNode:`)
	assert.Contains(t, heard.heard()[0], "metadata.labels: Invalid value")

	n.VirtualNodeChanged(labeled("yes", "2"))
	<-asked
	n.VirtualNodeChanged(labeled("", "3"))
	require.Eventually(t, func() bool {
		_, err := clientset.CoreV1().Nodes().Get(t.Context(), "milan-1", metav1.GetOptions{})
		return err == nil
	}, patience, time.Millisecond)
	assert.Len(t, heard.heard(), 1, "the same cause is one event")
	assert.Empty(t, asked, "it was not tried again before it was another")
}

func TestAProviderThatCannotBeReachedIsTold(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		// registered is whether the Node is there, looks what was found, and pauses what passes
		// before each look.
		registered bool
		looks      []error
		pauses     []time.Duration
		want       int
	}{
		"at once while there is no Node":       {looks: []error{errDown}, want: 1},
		"once, whatever port was tried":        {looks: []error{errDown, errors.New("from :4711 to :443: reset")}, want: 1},
		"again when it lasts":                  {looks: []error{errDown, errDown}, pauses: []time.Duration{0, tellAgain}, want: 2},
		"not for one look, if there is a Node": {registered: true, looks: []error{errDown, nil, errDown}, want: 0},
		"for two of them":                      {registered: true, looks: []error{errDown, errDown}, want: 1},
		"anew when it had answered in between": {registered: true, looks: []error{errDown, errDown, nil, errDown, errDown}, want: 2},
		"not at all when it can":               {looks: []error{nil, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			now, heard := start, &listener{}
			var found error
			n := newNode(t, fake.NewClientset(), func(o *Options) {
				o.Now, o.Tell = func() time.Time { return now }, heard.tell
				o.RemoteHealth = func(context.Context) error { return found }
			})
			if tc.registered {
				n.server = &corev1.Node{}
			}
			for i, look := range tc.looks {
				if len(tc.pauses) > i {
					now = now.Add(tc.pauses[i])
				}
				found = look
				assert.Equal(t, look == nil, n.Ping(t.Context()) == nil)
			}
			told := heard.heard()
			require.Len(t, told, tc.want)
			for _, message := range told {
				assert.Contains(t, message, `milan-1 ProviderUnreachable: The provider cannot be reached, so the Node is not made, or not kept: asking the API server of cluster "milan": connection refused`)
			}
		})
	}
}

func TestWhatAnAPIServerRefusesLaterIsToldToo(t *testing.T) {
	refusal := apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Node").GroupKind(), "milan-1", nil)
	t.Run("when the status is published", func(t *testing.T) {
		heard := &listener{}
		n := newNode(t, fake.NewClientset(), func(o *Options) { o.Tell = heard.tell })
		for range 3 {
			require.ErrorIs(t, n.recreate(t.Context(), refusal), refusal)
		}
		assert.Len(t, heard.heard(), 1)
	})
	t.Run("when taints are set", func(t *testing.T) {
		heard, clientset := &listener{}, fake.NewClientset()
		clientset.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, refusal })
		n := newNode(t, clientset, func(o *Options) { o.Tell = heard.tell })
		n.server = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan-1"}}
		n.healTaints(t.Context(), n.desired())
		assert.Len(t, heard.heard(), 1)
	})
}
