package plan

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// pages is a client of an API server that answers a list in pages, as JSON.
type pages struct {
	client.Client

	answers []string
}

func (p *pages) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	answer := p.answers[0]
	p.answers = p.answers[1:]
	return json.Unmarshal([]byte(answer), list)
}

func TestItemsOfAllPagesAreKept(t *testing.T) {
	l := &Live{reader: &pages{answers: []string{
		`{"metadata":{"continue":"more"},"items":[{"metadata":{"name":"offloading","namespace":"shop"},"spec":{"podOffloadingStrategy":"Remote"}}]}`,
		`{"items":[{"metadata":{"name":"offloading","namespace":"mall"}}]}`,
	}}}
	f := newFacts("", true)
	require.NoError(t, each(t.Context(), l, &offloadingv1beta1.NamespaceOffloadingList{}, func(list *offloadingv1beta1.NamespaceOffloadingList) {
		for i := range list.Items {
			f.addOffloading(&list.Items[i])
		}
	}))
	require.Len(t, f.Offloadings, 2)
	for namespace, strategy := range map[string]offloadingv1beta1.PodOffloadingStrategyType{"shop": "Remote", "mall": "LocalAndRemote"} {
		assert.Equal(t, namespace, f.Offloadings[namespace].Namespace)
		assert.Equal(t, strategy, f.Offloadings[namespace].Spec.PodOffloadingStrategy)
	}
}
