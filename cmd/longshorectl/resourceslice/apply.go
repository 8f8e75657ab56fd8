package resourceslice

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/longshore-dev/longshore/cmd/longshorectl/admin"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// settleTime is how long the answer of a provider stays as it is until it counts as the answer to
// the present request of a slice that existed before.
const settleTime = 5 * time.Second

// Granted is a slice that the provider accepted.
type Granted struct {
	Slice *authv1beta1.ResourceSlice
	// Note says what is granted when that differs from the request; empty otherwise.
	Note string
}

// Apply writes the slice and waits until the provider granted it and Longshore's manager made the
// Secret with its credentials, which virtual nodes use. A slice that the provider denied is an error.
func Apply(ctx context.Context, consumer *admin.Cluster, namespace string, provider liqocorev1beta1.ClusterID, request Request, waiting admin.Waiting) (*Granted, error) {
	want := request.Object(namespace, provider)
	slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: want.Name, Namespace: want.Namespace}}
	answer := answer{}
	if err := consumer.Write(ctx, slice, func() error {
		answer.isFirst = slice.ResourceVersion == ""
		request.change(slice, want)
		return nil
	}); err != nil {
		return nil, err
	}
	var denied error
	if err := consumer.Until(ctx, slice, waiting, func() (missing string) {
		missing, denied = answer.pending(slice, time.Now())
		return missing
	}); err != nil {
		return nil, err
	}
	if denied != nil {
		return nil, denied
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Name: authentication.KubeconfigSecretName(authentication.SliceIdentityName(slice.Name)), Namespace: namespace,
	}}
	return &Granted{Slice: slice, Note: answer.note(slice)}, consumer.Until(ctx, secret, waiting, func() string { return "" })
}

// answer tells the provider's answer to a request from that to an earlier one: the status of a slice
// has no observed generation. What equals the request is the answer, and so is the first one of
// a new slice. Otherwise it counts when it has stayed as it is for a while, which also ends the wait for a
// provider that grants another amount, or that does not answer.
type answer struct {
	// isFirst says that the slice is new.
	isFirst bool

	seen  authv1beta1.ResourceSliceStatus
	since time.Time
}

// pending returns what the provider has not decided yet, or an error when it denied the slice.
func (a *answer) pending(slice *authv1beta1.ResourceSlice, now time.Time) (string, error) {
	if a.since.IsZero() || !equality.Semantic.DeepEqual(a.seen, slice.Status) {
		a.seen, a.since = *slice.Status.DeepCopy(), now
	}
	isFinal := a.isFirst || now.Sub(a.since) >= settleTime
	for _, kind := range conditions {
		c := ConditionOf(slice, kind)
		switch {
		case c == nil:
			return fmt.Sprintf("the provider to decide about %s", kind), nil
		case c.Status == authv1beta1.ResourceSliceConditionDenied && !isFinal:
			return "the provider to accept what it has denied before", nil
		case c.Status == authv1beta1.ResourceSliceConditionDenied:
			return "", &output.Exit{Code: output.CodeDenied, Err: fmt.Errorf("the provider denied ResourceSlice %q: %s: %s", slice.Name, c.Reason, c.Message)}
		}
	}
	if different := differences(slice); len(different) > 0 && !isFinal {
		return "the provider to answer the request; it has " + strings.Join(different, ", "), nil
	}
	return "", nil
}

// note says what is granted when that differs from the request, and why, or returns "".
func (a *answer) note(slice *authv1beta1.ResourceSlice) string {
	different := differences(slice)
	switch {
	case len(different) == 0:
		return ""
	case a.isFirst:
		return strings.Join(different, ", ") + ": the provider's policy"
	default:
		return strings.Join(different, ", ") + ": the provider's policy, or an answer that is not there yet"
	}
}

// differences returns the amounts that are granted and differ from those that a slice asks for.
func differences(slice *authv1beta1.ResourceSlice) []string {
	var different []string
	for _, name := range slices.Sorted(maps.Keys(slice.Spec.Resources)) {
		asked, granted := slice.Spec.Resources[name], slice.Status.Resources[name]
		switch granted.Cmp(asked) {
		case -1:
			different = append(different, fmt.Sprintf("granted %s of %s %s", granted.String(), asked.String(), name))
		case 1:
			different = append(different, fmt.Sprintf("granted %s %s instead of %s", granted.String(), name, asked.String()))
		}
	}
	return different
}
