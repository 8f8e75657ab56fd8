package chain

import (
	"fmt"
	"strings"

	"github.com/longshore-dev/longshore/host/policy/engine"
)

// SettingsChecker is a [Policy] that can check its settings. The caller lets it check them
// before it binds the policy.
type SettingsChecker interface {
	// ChecksSettings reports whether the policy checks its settings. If it does, settings are
	// not the cause of its failures.
	ChecksSettings() bool
}

// checksSettings reports whether the link's policy has accepted its settings.
func (l *link) checksSettings() bool {
	checker, ok := l.Policy.(SettingsChecker)
	return ok && checker.ChecksSettings()
}

// settingsField is how the SDK, and messages of modules, name the settings.
const settingsField = "spec.settings"

// isAboutSettings reports whether the settings can be the cause of a failure whose class
// blames the module, and whether the message says that they are.
func isAboutSettings(class engine.Class, message string, checked bool) (possible, named bool) {
	named = strings.Contains(message, settingsField)
	switch {
	case checked:
		return false, false
	case class == engine.Guest:
		return true, named
	default:
		// A module must not crash, whatever its settings are.
		return class == engine.Trap && named, false
	}
}

// remedy says which role must act on a failure of a policy: class and message are those of
// the failure, checked reports that the module accepted its settings.
func remedy(binding string, class engine.Class, message string, checked bool) string {
	settings := fmt.Sprintf("%s of OffloadingPolicy %q, or of the ConfigMap that defines it", settingsField, binding)
	switch possible, named := isAboutSettings(class, message, checked); {
	case named:
		return "an operator must correct " + settings
	case possible:
		return "if " + settings + ", are missing or wrong, an operator must correct them; otherwise the module's author must correct the module"
	default:
		return "the module's author must correct it"
	}
}
