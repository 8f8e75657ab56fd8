package policysource_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	policymodule "github.com/longshore-dev/longshore/host/policy/module"
	"github.com/longshore-dev/longshore/host/policysource/attestation"
	"github.com/longshore-dev/longshore/host/policysource/plan"
)

// A report here is the digest of the module that it is about.
func TestAModuleWithoutAnAcceptedReportIsNotBound(t *testing.T) {
	checked := 0
	unsigned := configMap("v1")
	r := newRig(t)
	r.attested = func(_ context.Context, report []byte, digest string) error {
		checked++
		if string(report) != digest {
			return fmt.Errorf("the report is about the module with digest %s, not %s", report, digest)
		}
		return nil
	}
	r.metrics = prometheus.NewRegistry()
	r.source = r.newSource()
	policy := object("mine", fromConfigMap)
	require.NoError(t, r.client.Create(t.Context(), unsigned))
	require.NoError(t, r.client.Create(t.Context(), policy))
	r.mustPass()
	assert.Equal(t, "False ReportRefused", r.reason("mine"))
	assert.Contains(t, r.ready("mine"), `has no key "report.dsse.json", and this cluster binds modules with a signed conformance report only`)
	assert.Empty(t, r.loads, "the module is not even compiled")

	stored := unsigned.DeepCopy()
	put := func(content, about string) {
		t.Helper()
		stored.BinaryData["module.wasm"] = []byte(content)
		stored.Data = map[string]string{attestation.DataKey: policymodule.Digest([]byte(about))}
		require.NoError(t, r.client.Update(t.Context(), stored))
		r.mustPass()
	}
	put("v1", "other")
	assert.Equal(t, "False ReportRefused", r.reason("mine"))
	assert.Contains(t, r.ready("mine"), "the report is about the module with digest sha256:")
	put("v1", "v1")
	assert.Equal(t, "True Bound", r.reason("mine"))
	assert.Equal(t, []string{"v1"}, r.loads)
	put("v2", "v1")
	assert.Equal(t, []string{"v1"}, r.loads, "a module that was replaced under an old report is not loaded")
	assert.Equal(t, "False ReportRefused", r.reason("mine"))

	before := checked
	r.mustPass()
	assert.Equal(t, before, checked, "results are remembered")

	verdict, err := r.source.Judge(t.Context(), object("yours", fromConfigMap), unsigned)
	require.NoError(t, err)
	assert.Equal(t, plan.ReasonReportRefused, verdict.Reason, "admission refuses it, too")
	assert.NotEmpty(t, verdict.Denial)
}
