package chart_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"sigs.k8s.io/yaml"
)

// The workflow of a release is run up to the packaging of the chart, with a stand-in for helm.
func TestAReleasedChartNamesThePublishedImage(t *testing.T) {
	raw, err := os.ReadFile("../../../.github/workflows/release.yaml")
	require.NoError(t, err)
	var workflow struct {
		Jobs map[string]struct {
			Steps []struct {
				Run string `json:"run"`
			} `json:"steps"`
		} `json:"jobs"`
	}
	require.NoError(t, yaml.Unmarshal(raw, &workflow))
	var script, packaged string
	for _, step := range workflow.Jobs["release"].Steps {
		if _, arguments, ok := strings.Cut(step.Run, "helm package "); ok {
			packaged = strings.Fields(arguments)[0]
		} else if strings.Contains(step.Run, "charts/longshore") {
			script += step.Run
		}
	}
	require.NotEmpty(t, packaged)
	for registry, want := range map[string]string{
		"registry.example.com/team/longshore": "registry.example.com/team/longshore",
		"":                                    "longshore/longshore",
	} {
		temp := t.TempDir()
		cmd := exec.CommandContext(t.Context(), "bash", "-e", "-c", script+"\ncp --recursive "+packaged+` "$RUNNER_TEMP/packaged"`)
		cmd.Dir, cmd.Env = "../../..", append(os.Environ(), "REGISTRY="+registry, "RUNNER_TEMP="+temp)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		chrt, err := loader.Load(filepath.Join(temp, "packaged"))
		require.NoError(t, err)
		assert.Equal(t, want, chrt.Values["image"].(map[string]any)["repository"])
	}
}
