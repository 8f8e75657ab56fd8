// Package scheme builds the scheme of Longshore's processes.
package scheme

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	ipamv1alpha1 "github.com/longshore-dev/longshore/host/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/longshore-dev/longshore/host/apis/networking/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
)

// New returns a scheme with the kinds of Kubernetes and Longshore.
func New() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	err := errors.Join(
		clientgoscheme.AddToScheme(s), offloadingv1beta1.AddToScheme(s), authv1beta1.AddToScheme(s),
		liqocorev1beta1.AddToScheme(s), policyv1alpha1.AddToScheme(s),
		networkingv1beta1.AddToScheme(s), ipamv1alpha1.AddToScheme(s),
	)
	if err != nil {
		return nil, fmt.Errorf("building the scheme: %w", err)
	}
	return s, nil
}
