package main

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// admitPlainClient makes the namespace of the plain client one of a consumer, and gives its user a
// Quota: the provider's webhook accepts no other ShadowPods.
func (s *side) admitPlainClient(ctx context.Context) error {
	review, err := s.client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("reading the user of the plain client: %w", err)
	}
	namespace := namespaceObject(plain)
	namespace.Labels = map[string]string{liqocorev1beta1.RemoteClusterIDLabel: plainOrigin}
	resources := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods, corev1.ResourceEphemeralStorage} {
		resources[name] = resource.MustParse("1Ti")
	}
	quota := &offloadingv1beta1.Quota{
		TypeMeta:   metav1.TypeMeta{APIVersion: offloadingv1beta1.GroupVersion.String(), Kind: "Quota"},
		ObjectMeta: metav1.ObjectMeta{Namespace: plain, Name: plainOrigin},
		Spec: offloadingv1beta1.QuotaSpec{
			User: review.Status.UserInfo.Username, LimitsEnforcement: offloadingv1beta1.NoLimitsEnforcement, Resources: resources,
		},
	}
	if err := s.Apply(ctx, namespace); err != nil {
		return err
	}
	return s.Apply(ctx, quota)
}
