package vkflag_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/longshore-dev/longshore/host/kit/vkflag"
)

func TestRemark(t *testing.T) {
	for name, tc := range map[string]struct{ argument, want string }{
		"one with a value":           {"--local-podcidr=10.0.0.0/16", `argument "--local-podcidr=10.0.0.0/16" has no effect in this version: EndpointSlices are not reflected yet`},
		"one without":                {"--enable-storage", `argument "--enable-storage" has no effect in this version: volume claims are not reflected yet`},
		"one that is switched on":    {"--enable-storage=true", `argument "--enable-storage=true" has no effect in this version: volume claims are not reflected yet`},
		"one that is switched off":   {"--enable-storage=false", ""},
		"no workers for what is not": {"--event-reflection-workers=0", ""},
		"one that has an effect":     {"--resync-period=1h", ""},
		"one that nobody knows":      {"--unknown", ""},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, vkflag.Remark(tc.argument)) })
	}
}
