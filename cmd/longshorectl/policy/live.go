package policy

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	builtinpolicies "github.com/longshore-dev/longshore/builtin-policies"
	"github.com/longshore-dev/longshore/cmd/longshorectl/cluster"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// Live is what is to be known of a policy in a cluster.
type Live struct {
	// Name and Generation of the OffloadingPolicy.
	Name       string `json:"name"`
	Generation int64  `json:"generation"`
	// Mode and FailurePolicy as the cluster has them.
	Mode          string `json:"mode,omitempty"`
	FailurePolicy string `json:"failurePolicy,omitempty"`
	// Source is where its module comes from.
	Source string `json:"source"`
	// Conditions of the policy; messages name the role that must act.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Digest and Manifest of the loaded module, as reported in status.
	Digest   string                          `json:"digest,omitempty"`
	Manifest *policyv1alpha1.ManifestSummary `json:"manifest,omitempty"`
	// Components that run it, with their problems and the latest differences that a policy in
	// mode Shadow would have made.
	Components []LiveComponent `json:"components,omitempty"`
	// Module is the module at the source, loaded by this process. It is nil if it could not
	// be read; ModuleError then has the reason.
	Module      *Inspection `json:"module,omitempty"`
	ModuleError string      `json:"moduleError,omitempty"`
	// Disagreements are the differences between spec, status, components and module.
	Disagreements []string `json:"disagreements,omitempty"`
}

// LiveComponent is what one component reports of the policy.
type LiveComponent struct {
	// Component by its name.
	Component string `json:"component"`

	policyv1alpha1.PolicyObservation `json:",inline"`
}

// healthy reports whether the policy needs no action.
func (l *Live) healthy() bool {
	return meta.IsStatusConditionTrue(l.Conditions, policyv1alpha1.ReadyCondition) && len(l.Disagreements) == 0
}

// InspectLive reads a policy and its module from a cluster, loads the module here as the
// cluster does there, and compares; see [Streams] about the compiler.
func InspectLive(ctx context.Context, compile engine.Compiler, c *cluster.Cluster, name string) (*Live, error) {
	policy := &policyv1alpha1.OffloadingPolicy{}
	if err := c.Get(ctx, policyv1alpha1.GroupVersion.WithResource("offloadingpolicies"), "", name, policy); err != nil {
		return nil, err
	}
	live := &Live{
		Name: policy.Name, Generation: policy.Generation,
		Mode: string(policy.Spec.Mode), FailurePolicy: string(policy.Spec.FailurePolicy), Source: sourceText(&policy.Spec.Module),
		Conditions: policy.Status.Conditions, Digest: policy.Status.Digest, Manifest: policy.Status.Manifest,
	}
	if err := cluster.List(ctx, c, policyv1alpha1.GroupVersion.WithResource("policycomponents"), live.addComponent(policy)); err != nil {
		return nil, err
	}
	raw, err := moduleOf(ctx, c, &policy.Spec.Module)
	if err != nil {
		live.ModuleError = err.Error()
	} else if live.Module, err = Inspect(ctx, compile, live.Source, raw); err != nil {
		return nil, err
	}
	live.compare(policy)
	return live, nil
}

// addComponent returns a function that adds what a component reports of the policy.
func (l *Live) addComponent(policy *policyv1alpha1.OffloadingPolicy) func(*policyv1alpha1.PolicyComponent) {
	return func(c *policyv1alpha1.PolicyComponent) {
		for _, o := range c.Status.Policies {
			if o.Name == policy.Name && o.UID == policy.UID {
				l.Components = append(l.Components, LiveComponent{Component: c.Status.Component, PolicyObservation: o})
			}
		}
	}
}

func sourceText(source *policyv1alpha1.ModuleSource) string {
	if source.ConfigMap == nil {
		return "built-in module " + source.BuiltIn
	}
	text := "ConfigMap " + source.ConfigMap.Namespace + "/" + source.ConfigMap.Name
	if len(source.ConfigMap.Parts) > 0 {
		text += fmt.Sprintf(" and %d parts", len(source.ConfigMap.Parts))
	}
	return text
}

// moduleOf reads the bytes of the module at its source.
func moduleOf(ctx context.Context, c *cluster.Cluster, source *policyv1alpha1.ModuleSource) ([]byte, error) {
	from := source.ConfigMap
	if from == nil {
		raw, err := builtinpolicies.Module()
		if err != nil {
			return nil, fmt.Errorf("this longshorectl carries no built-in module: %w", err)
		}
		return raw, nil
	}
	var whole []byte
	for _, name := range append([]string{from.Name}, from.Parts...) {
		var object struct {
			BinaryData map[string]string `json:"binaryData"`
		}
		if err := c.Get(ctx, schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, from.Namespace, name, &object); err != nil {
			return nil, err
		}
		key := from.Key
		if keys := slices.Sorted(maps.Keys(object.BinaryData)); key == "" {
			if len(keys) != 1 {
				return nil, fmt.Errorf("ConfigMap %s/%s has %d keys in its binaryData: the operator must set spec.module.configMap.key", from.Namespace, name, len(keys))
			}
			key = keys[0]
		}
		text, ok := object.BinaryData[key]
		if !ok {
			return nil, fmt.Errorf("ConfigMap %s/%s has no key %q in its binaryData: the operator must add it", from.Namespace, name, key)
		}
		piece, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("reading key %q of ConfigMap %s/%s: %w", key, from.Namespace, name, err)
		}
		whole = append(whole, piece...)
	}
	if len(whole) == 0 {
		return nil, errors.New("the module at " + sourceText(source) + " is empty: the operator must upload it again")
	}
	return whole, nil
}

// compare finds the differences between spec, status, components and module.
func (l *Live) compare(policy *policyv1alpha1.OffloadingPolicy) {
	if policy.Status.ObservedGeneration != policy.Generation {
		l.disagree("status is about generation %d of the spec, which is at %d: it is not loaded yet, or no component runs", policy.Status.ObservedGeneration, policy.Generation)
	}
	if policy.Spec.Mode == policyv1alpha1.ModeDisabled {
		return // no component loads it
	}
	for i := range l.Components {
		o := &l.Components[i]
		if o.Digest != l.Digest {
			l.disagree("%s runs %s, status reports %s", o.Component, orNone(chain.ShortDigest(o.Digest)), orNone(chain.ShortDigest(l.Digest)))
		}
		if o.Generation != policy.Generation {
			l.disagree("%s decides by generation %d of the spec, which is at %d", o.Component, o.Generation, policy.Generation)
		}
	}
	if l.Module == nil {
		return
	}
	if !l.Module.Accepted {
		l.disagree("the module at %s is refused: %s", l.Source, l.Module.Verdict)
		return
	}
	if l.Module.Digest != l.Digest {
		l.disagree("the module at %s has digest %s, the cluster has loaded %s", l.Source, chain.ShortDigest(l.Module.Digest), orNone(chain.ShortDigest(l.Digest)))
	}
	l.comparePoints(policy)
}

func (l *Live) comparePoints(policy *policyv1alpha1.OffloadingPolicy) {
	declared := map[string]*contract.PointManifest{}
	for i := range l.Module.Points {
		declared[string(l.Module.Points[i].Point)] = &l.Module.Points[i]
	}
	for _, point := range policy.Spec.Points {
		if declared[string(point)] == nil {
			l.disagree("spec.points names %s, which the module does not answer", point)
		}
	}
	if l.Manifest == nil {
		return
	}
	if l.Manifest.Name != l.Module.Name || l.Manifest.Version != l.Module.Version {
		l.disagree("the module at %s is %s, status reports %s", l.Source,
			strings.TrimSpace(l.Module.Name+" "+l.Module.Version), strings.TrimSpace(l.Manifest.Name+" "+l.Manifest.Version))
	}
	for i := range l.Manifest.Points {
		reported := &l.Manifest.Points[i]
		point := declared[string(reported.Point)]
		if point == nil {
			l.disagree("status reports that the policy answers %s, the module at %s does not", reported.Point, l.Source)
			continue
		}
		readable := slices.Concat(point.Reads, point.SettingsReads)
		for _, path := range reported.Reads {
			if !slices.Contains(readable, path) {
				l.disagree("status reports that it reads %s at %s, the module at %s does not declare it", path, reported.Point, l.Source)
			}
		}
		declares := map[string]bool{}
		for j := range point.Writes {
			declares[writeText(&point.Writes[j])] = true
		}
		for _, rule := range manifestOf(reported).Writes {
			if text := writeText(&rule); !declares[text] {
				l.disagree("status reports that it writes %s at %s, the module at %s does not declare it", text, reported.Point, l.Source)
			}
		}
	}
}

func (l *Live) disagree(format string, arguments ...any) {
	l.Disagreements = append(l.Disagreements, fmt.Sprintf(format, arguments...))
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}
