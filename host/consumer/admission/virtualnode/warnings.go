package virtualnode

import (
	"fmt"
	"slices"
	"strings"

	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
	"github.com/longshore-dev/longshore/host/kit/vkflag"
)

// warnDropped returns a warning for each added argument that the forged Deployment does not have.
func warnDropped(added, forged []string) []string {
	var warnings []string
	for _, arg := range added {
		switch name, _, _ := strings.Cut(arg, "="); name {
		case virtualkubelet.FlagMetricsEnabled, virtualkubelet.FlagMetricsAddress, virtualkubelet.FlagNodeAnnotations, virtualkubelet.FlagNodeLabels:
			continue // Merged, possibly in another form.
		}
		if !slices.Contains(forged, arg) {
			warnings = append(warnings, fmt.Sprintf("argument %q is ignored: only arguments of the VkOptionsTemplate can be overridden in spec.template", arg))
		}
	}
	return warnings
}

// warnWithoutEffect returns a warning for each argument that has no effect in this version.
func warnWithoutEffect(arguments []string) []string {
	var warnings []string
	for _, argument := range arguments {
		if warning := vkflag.Warn(argument); warning != "" && !slices.Contains(warnings, warning) {
			warnings = append(warnings, warning)
		}
	}
	return warnings
}
