package modules

import (
	"context"
	"crypto/sha256"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	policymodule "github.com/longshore-dev/longshore/host/policy/module"
	"github.com/longshore-dev/longshore/host/policysource/attestation"
	"github.com/longshore-dev/longshore/host/policysource/plan"
)

// attest returns a problem unless the ConfigMap of the module has a signed report about it, if the
// cluster requires one. Modules of the binary need none.
func (m *Modules) attest(ctx context.Context, from *policyv1alpha1.ConfigMapSource, raw []byte, stored *corev1.ConfigMap) (*plan.Problem, error) {
	if m.options.Attested == nil {
		return nil, nil
	}
	name := client.ObjectKey{Namespace: from.Namespace, Name: from.Name}
	configMap, problem, err := m.configMap(ctx, name, stored)
	if problem != nil || err != nil {
		return problem, err
	}
	report, ok := configMap.Data[attestation.DataKey]
	if !ok {
		return &plan.Problem{Reason: plan.ReasonReportRefused, Err: fmt.Errorf(
			"data of ConfigMap %s has no key %q, and this cluster binds modules with a signed conformance report only: the author must sign one (longshorectl policy conform --sign-key), and the operator must store it there",
			name, attestation.DataKey)}, nil
	}
	if err := m.checkReport(ctx, []byte(report), raw); err != nil {
		return &plan.Problem{Reason: plan.ReasonReportRefused, Err: fmt.Errorf(
			"key %q of ConfigMap %s: %w; the operator must store the signed report of this module", attestation.DataKey, name, err)}, nil
	}
	return nil, nil
}

// outcome is a result of Options.Attested.
type outcome struct{ err error }

// checkReport remembers results: policies are reconciled often, and modules are compressed.
func (m *Modules) checkReport(ctx context.Context, report, raw []byte) error {
	key := [2][sha256.Size]byte{sha256.Sum256(report), sha256.Sum256(raw)}
	if known, ok := m.attested.Get(key); ok {
		return known.(outcome).err
	}
	wasm, err := policymodule.Unpack(raw)
	if err == nil {
		err = m.options.Attested(ctx, report, policymodule.Digest(wasm))
	}
	m.attested.Add(key, outcome{err}, verdictAge)
	return err
}
