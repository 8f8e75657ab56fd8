package namespacemap

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/provider"
)

// CustomCountsAfter is how long after the manager's start ResourceQuotas begin to count custom resources. Kubernetes
// discovers their kinds every half minute, and refuses all objects of a kind that a ResourceQuota counts before that.
const CustomCountsAfter = time.Minute

// Limits bound what one consumer has in this cluster beside its pods, which Quotas bound. The zero value
// bounds nothing.
type Limits struct {
	// Namespaces is how many namespaces a consumer has; 0 is no limit.
	Namespaces int `json:"namespaces"`
	// PerNamespace is the ResourceQuota of each of them. Without it there is none.
	PerNamespace corev1.ResourceList `json:"perNamespace"`
	// TenantNamespace is the ResourceQuota of its tenant namespace. Without it there is none.
	TenantNamespace corev1.ResourceList `json:"tenantNamespace"`
	// PerConsumer are the largest sums of these ResourceQuotas. Namespaces get what is left of a sum
	// in the order in which they ask.
	PerConsumer corev1.ResourceList `json:"perConsumer"`
}

// ParseLimits parses JSON of Limits; an empty text bounds nothing.
func ParseLimits(text string) (Limits, error) {
	limits := Limits{}
	if text == "" {
		return limits, nil
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&limits); err != nil {
		return Limits{}, fmt.Errorf("parsing the limits of consumers %q: %w", text, err)
	}
	for name := range limits.PerConsumer {
		if _, ok := limits.PerNamespace[name]; !ok {
			return Limits{}, fmt.Errorf("parsing the limits of consumers: perConsumer has %q, which perNamespace does not have", name)
		}
	}
	return limits, nil
}

// hard returns the limits of one namespace. others are the limits of the consumer's other namespaces.
func (l *Limits) hard(others corev1.ResourceList) corev1.ResourceList {
	hard := maps.Clone(l.PerNamespace)
	for name, sum := range l.PerConsumer {
		left := sum.DeepCopy()
		left.Sub(others[name])
		if left.Sign() < 0 {
			left = *resource.NewQuantity(0, resource.DecimalSI)
		}
		if most := hard[name]; left.Cmp(most) < 0 {
			hard[name] = left
		}
	}
	return hard
}

// isCustomCount reports whether a limit is the number of custom resources of a kind.
func isCustomCount(name corev1.ResourceName) bool {
	kind, isCount := strings.CutPrefix(string(name), "count/")
	_, group, _ := strings.Cut(kind, ".")
	return isCount && !scheme.Scheme.IsGroupRegistered(group)
}

// counts reports whether a ResourceQuota, which may be nil, has a limit.
func counts(quota *corev1.ResourceQuota, name corev1.ResourceName) bool {
	if quota == nil {
		return false
	}
	_, ok := quota.Spec.Hard[name]
	return ok
}

// untilCustomCounts returns how long ResourceQuotas do not begin to count custom resources, 0 if they do or if there is
// no such limit.
func (r *Reconciler) untilCustomCounts() time.Duration {
	for name := range r.Limits.PerNamespace {
		if isCustomCount(name) {
			return max(0, r.CustomCountsFrom.Sub(r.Clock.Now()))
		}
	}
	return 0
}

// readQuotas reads the ResourceQuotas in all namespaces of the consumer.
func (p *pass) readQuotas(ctx context.Context) error {
	p.quotas = map[string]*corev1.ResourceQuota{}
	if len(p.r.Limits.PerNamespace) == 0 {
		return nil
	}
	list := &corev1.ResourceQuotaList{}
	if err := p.r.Client.List(ctx, list, client.MatchingLabels{liqocorev1beta1.RemoteClusterIDLabel: p.origin}); err != nil {
		return fmt.Errorf("listing the ResourceQuotas of consumer %q: %w", p.origin, err)
	}
	for i := range list.Items {
		if list.Items[i].Name == provider.QuotaName {
			p.quotas[list.Items[i].Namespace] = &list.Items[i]
		}
	}
	return nil
}

// othersHard returns the limits of the consumer's other namespaces that have a sum.
func (p *pass) othersHard(remote string) corev1.ResourceList {
	others := corev1.ResourceList{}
	for namespace, quota := range p.quotas {
		if namespace == remote {
			continue
		}
		for name := range p.r.Limits.PerConsumer {
			sum := others[name]
			sum.Add(quota.Spec.Hard[name])
			others[name] = sum
		}
	}
	return others
}

// ensureQuota ensures the ResourceQuota of a namespace. It returns errCut while Kubernetes has not
// counted a new one: until then the API server refuses all that the quota limits. An administrator's
// own limits stay.
func (p *pass) ensureQuota(ctx context.Context, remote string, isNew bool) error {
	current := p.quotas[remote]
	if len(p.r.Limits.PerNamespace) == 0 || current != nil && current.Annotations[offloadingv1beta1.CustomLimitsAnnotation] == "true" {
		return nil
	}
	hard := p.r.Limits.hard(p.othersHard(remote))
	if p.r.untilCustomCounts() > 0 {
		maps.DeleteFunc(hard, func(name corev1.ResourceName, _ resource.Quantity) bool {
			return isCustomCount(name) && !counts(current, name)
		})
	}
	desired := provider.ResourceQuota(p.nm, p.origin, remote, hard)
	if current == nil {
		if !isNew && !p.spend() {
			return errCut
		}
		if err := p.r.Client.Create(ctx, desired); client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("creating ResourceQuota %s/%s: %w", remote, provider.QuotaName, err)
		}
		p.quotas[remote] = desired
		return errCut // The event of its status is next.
	}
	before := current.DeepCopy()
	if changed := restoreMetadata(current, desired); !changed && equality.Semantic.DeepEqual(current.Spec, desired.Spec) {
		return isCounted(current)
	}
	if !p.spend() {
		*current = *before
		return errCut
	}
	current.Spec = desired.Spec
	if err := p.r.Client.Patch(ctx, current, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("restoring ResourceQuota %s/%s: %w", remote, provider.QuotaName, err)
	}
	return isCounted(current)
}

// isCounted returns errCut for a ResourceQuota that is not in effect yet.
func isCounted(quota *corev1.ResourceQuota) error {
	if quota.Status.Hard == nil {
		return errCut
	}
	return nil
}

// quotaChanges drops events of what a ResourceQuota counts.
func quotaChanges() predicate.Predicate {
	return predicate.And(isOrWas(isAnnotated), predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, okBefore := e.ObjectOld.(*corev1.ResourceQuota)
		after, okAfter := e.ObjectNew.(*corev1.ResourceQuota)
		return okBefore && okAfter && (!equality.Semantic.DeepEqual(before.Spec, after.Spec) ||
			!maps.Equal(before.Labels, after.Labels) || !maps.Equal(before.Annotations, after.Annotations) ||
			(before.Status.Hard == nil) != (after.Status.Hard == nil))
	}})
}
