package module

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/sdk/contract"
)

// A policy may rely on every fact that the contract says is set.
func TestSampleFactsHaveWhatTheContractPromises(t *testing.T) {
	read := func(t *testing.T, point contract.Point, moment contract.Moment, facts any) {
		t.Helper()
		decoder := json.NewDecoder(bytes.NewReader(sampleFacts(point, moment)))
		decoder.DisallowUnknownFields()
		require.NoError(t, decoder.Decode(facts))
	}
	t.Run("PodMutation at admission", func(t *testing.T) {
		var facts contract.PodMutationFacts
		read(t, contract.PodMutation, contract.MomentAdmission, &facts)
		assert.NotNil(t, facts.Offloading)
		assert.NotNil(t, facts.Namespace)
		assert.NotNil(t, facts.Request)
		assert.NotEmpty(t, facts.RuntimeClassName)
		assert.Nil(t, facts.VirtualNode)
	})
	t.Run("PodMutation at offloading", func(t *testing.T) {
		var facts contract.PodMutationFacts
		read(t, contract.PodMutation, contract.MomentOffload, &facts)
		assert.NotNil(t, facts.Local)
		assert.NotNil(t, facts.VirtualNode)
		assert.Nil(t, facts.Offloading)
	})
	t.Run("OffloadingPatch", func(t *testing.T) {
		var facts contract.OffloadingPatchFacts
		read(t, contract.OffloadingPatch, "", &facts)
		assert.NotEmpty(t, facts.VirtualNode.Name)
		assert.NotEmpty(t, facts.Local.Metadata.Name)
	})
	t.Run("AntiAffinityPreset", func(t *testing.T) {
		var facts contract.AntiAffinityPresetFacts
		read(t, contract.AntiAffinityPreset, "", &facts)
		assert.NotEmpty(t, facts.Local.Metadata.Name)
	})
	t.Run("MetadataFilter", func(t *testing.T) {
		var facts contract.MetadataFilterFacts
		read(t, contract.MetadataFilter, "", &facts)
		assert.NotNil(t, facts.VirtualNode)
		assert.NotEmpty(t, facts.Object.Kind)
	})
	t.Run("ResourceMutation", func(t *testing.T) {
		var facts contract.ResourceMutationFacts
		read(t, contract.ResourceMutation, "", &facts)
		assert.NotEmpty(t, facts.VirtualNode.Name)
		assert.NotEmpty(t, facts.Object.Kind)
	})
}
