package engine

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// BenchmarkNamesOfANamespace is what a virtual node does for each of 500 namespaces when it starts, with 10,000 pods.
func BenchmarkNamesOfANamespace(b *testing.B) {
	s := newStore(Kind{New: func() client.Object { return &corev1.Pod{} }}, func(client.Object) {})
	for i := range 10_000 {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprintf("ns-%d", i%500), Name: fmt.Sprintf("pod-%d", i), UID: types.UID(fmt.Sprint(i)), ResourceVersion: fmt.Sprint(i + 1),
		}}
		if err := s.Add(pod); err != nil {
			b.Fatal(err)
		}
	}
	for i := 0; b.Loop(); i++ {
		if names := s.Names(fmt.Sprintf("ns-%d", i%500)); len(names) != 20 {
			b.Fatalf("%d names", len(names))
		}
	}
}
