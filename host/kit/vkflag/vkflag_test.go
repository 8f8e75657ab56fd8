package vkflag_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/longshore-dev/longshore/host/kit/vkflag"
)

func TestWarn(t *testing.T) {
	for name, tc := range map[string]struct{ argument, want string }{
		"a flag with a value":        {"--remote-pod-cidr=10.0.0.0/16", `argument "--remote-pod-cidr=10.0.0.0/16" has no effect in this version: addresses are translated by the Configuration of the provider`},
		"a flag without a value":     {"--remote-pod-cidr", `argument "--remote-pod-cidr" has no effect in this version: addresses are translated by the Configuration of the provider`},
		"a feature that is enabled":  {"--enable-storage=true", ""},
		"a feature that is disabled": {"--enable-storage=false", ""},
		"zero workers":               {"--persistentvolumeclaim-reflection-workers=0", ""},
		"a flag with an effect":      {"--event-reflection-workers=3", ""},
		"an unknown flag":            {"--unknown", ""},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, vkflag.Warn(tc.argument)) })
	}
}
