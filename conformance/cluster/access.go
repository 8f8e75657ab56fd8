package cluster

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// identity is the user of a virtual kubelet in the provider.
type identity struct {
	user   string
	client client.Client
}

// identities returns those of the virtual kubelets of the consumer. They are impersonated: the address
// in their kubeconfigs may be reachable from the consumer only.
func (s *session) identities(ctx context.Context) ([]identity, error) {
	list := &corev1.SecretList{}
	err := s.Consumer.List(ctx, list, client.MatchingLabels{
		liqocorev1beta1.RemoteClusterIDLabel: string(s.providerID), authv1beta1.IdentityTypeLabel: string(authv1beta1.ResourceSliceIdentityType),
	})
	if err != nil {
		return nil, fmt.Errorf("listing the kubeconfig Secrets of the consumer: %w", err)
	}
	var found []identity
	for i := range list.Items {
		user, groups, err := subjectOf(list.Items[i].Data[authv1beta1.KubeconfigSecretKey])
		if err != nil {
			return nil, fmt.Errorf("reading Secret %s/%s: %w", list.Items[i].Namespace, list.Items[i].Name, err)
		}
		if user == "" {
			continue
		}
		as, err := s.Impersonate(user, groups)
		if err != nil {
			return nil, err
		}
		found = append(found, identity{user, as})
	}
	if len(found) == 0 {
		return nil, skip("no kubeconfig of the consumer for the provider has a client certificate")
	}
	return found, nil
}

// subjectOf returns the user and the groups of the client certificate in a kubeconfig; no user if it
// has other credentials.
func subjectOf(kubeconfig []byte) (user string, groups []string, err error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return "", nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	block, _ := pem.Decode(config.CertData)
	if block == nil {
		return "", nil, nil
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", nil, fmt.Errorf("reading the client certificate: %w", err)
	}
	return certificate.Subject.CommonName, append([]string{"system:authenticated"}, certificate.Subject.Organization...), nil
}

// asConsumer runs a check with each identity of the consumer.
func (s *session) asConsumer(ctx context.Context, check func(identity) error) error {
	identities, err := s.identities(ctx)
	if err != nil {
		return err
	}
	var errs []error
	var skipped error
	for _, identity := range identities {
		err := check(identity)
		if _, ok := errors.AsType[skip](err); ok {
			skipped = err
		} else if err != nil {
			errs = append(errs, fmt.Errorf("user %s: %w", identity.user, err))
		}
	}
	if len(errs) == 0 {
		return skipped
	}
	return errors.Join(errs...)
}

// denied returns an error unless a request was refused for a missing right.
func denied(what string, err error) error {
	switch {
	case apierrors.IsForbidden(err):
		return nil
	case err == nil:
		return fmt.Errorf("the provider allows it to %s", what)
	default:
		return fmt.Errorf("trying to %s: %w", what, err)
	}
}

func (s *session) identityPods(ctx context.Context) error {
	return s.asConsumer(ctx, func(as identity) error {
		var errs []error
		for _, namespace := range []string{s.remote, metav1.NamespaceDefault} {
			pod := s.newPod("forged")
			// As an attacker would: admission that asks for these labels must not hide that the right is there.
			pod.Namespace, pod.Labels = namespace, s.ownership()
			errs = append(errs, denied("create pods in namespace "+namespace, as.client.Create(ctx, pod, client.DryRunAll)))
		}
		return errors.Join(errs...)
	})
}

func (s *session) identityConfined(ctx context.Context) error {
	return s.asConsumer(ctx, func(as identity) error {
		shadow := s.shadowPod("1m")
		shadow.Namespace = metav1.NamespaceDefault
		return errors.Join(
			denied("read Secrets of namespace kube-system", as.client.List(ctx, &corev1.SecretList{}, client.InNamespace(metav1.NamespaceSystem))),
			denied("create ShadowPods in namespace default", as.client.Create(ctx, shadow, client.DryRunAll)),
		)
	})
}

// shadowPod is what a virtual kubelet would send.
func (s *session) shadowPod(cpu string) *offloadingv1beta1.ShadowPod {
	pod := s.newPod("forged")
	for _, list := range []corev1.ResourceList{pod.Spec.Containers[0].Resources.Requests, pod.Spec.Containers[0].Resources.Limits} {
		list[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	return &offloadingv1beta1.ShadowPod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.remote, Name: pod.Name, Labels: s.ownership()},
		Spec:       offloadingv1beta1.ShadowPodSpec{Pod: pod.Spec},
	}
}

// quotaOf returns the Quota of a user of the provider; nil if there is none.
func (s *session) quotaOf(ctx context.Context, user string) (*offloadingv1beta1.Quota, error) {
	list := &offloadingv1beta1.QuotaList{}
	if err := s.Provider.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing the Quotas of the provider: %w", err)
	}
	for i := range list.Items {
		if list.Items[i].Spec.User == user {
			return &list.Items[i], nil
		}
	}
	return nil, nil
}

// quotaEnforced asks for one millicore more than the Quota, as a dry run; a small ShadowPod must pass.
func (s *session) quotaEnforced(ctx context.Context) error {
	return s.asConsumer(ctx, func(as identity) error {
		quota, err := s.quotaOf(ctx, as.user)
		if err != nil {
			return err
		}
		if quota == nil || quota.Spec.Resources.Cpu().IsZero() {
			return skip("the provider has no Quota of cpu for user " + as.user)
		}
		granted := quota.Spec.Resources.Cpu().DeepCopy()
		if err := as.client.Create(ctx, s.shadowPod("1m"), client.DryRunAll); err != nil {
			return fmt.Errorf("creating a ShadowPod within the Quota: %w", err)
		}
		granted.Add(resource.MustParse("1m"))
		if err := as.client.Create(ctx, s.shadowPod(granted.String()), client.DryRunAll); err == nil {
			return fmt.Errorf("a ShadowPod that requests %s of cpu is admitted", granted.String())
		}
		return nil
	})
}

// shadowPodOrigin sends a ShadowPod in the name of another cluster, as a dry run.
func (s *session) shadowPodOrigin(ctx context.Context) error {
	return s.asConsumer(ctx, func(as identity) error {
		if err := as.client.Create(ctx, s.shadowPod("1m"), client.DryRunAll); err != nil {
			return fmt.Errorf("creating a ShadowPod of the right origin: %w", err)
		}
		shadow := s.shadowPod("1m")
		shadow.Labels[offloadingv1beta1.OriginLabel] = "another"
		if err := as.client.Create(ctx, shadow, client.DryRunAll); err == nil {
			return errors.New("a ShadowPod of the origin \"another\" is admitted")
		}
		return nil
	})
}
