package provider_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/utils/ptr"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/provider"
)

// A pod without a grace period is gone at once, whether or not its containers are.
func TestAPodIsEndedByItsKubelet(t *testing.T) {
	for name, tc := range map[string]struct{ period, want *int64 }{
		"the default": {}, "none": {ptr.To[int64](0), ptr.To[int64](1)}, "another": {ptr.To[int64](90), ptr.To[int64](90)},
	} {
		s := &offloadingv1beta1.ShadowPod{}
		s.Spec.Pod.TerminationGracePeriodSeconds = tc.period
		assert.Equal(t, tc.want, provider.Pod(s).Spec.TerminationGracePeriodSeconds, name)
		assert.Equal(t, tc.period, s.Spec.Pod.TerminationGracePeriodSeconds, name)
	}
}
