package address_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/kit/address"
)

func TestIdentity(t *testing.T) {
	for _, original := range []string{"10.0.0.5", "fd00::5", "example.com"} {
		got, err := address.Identity{}.Translate("rome", original)
		require.NoError(t, err)
		assert.Equal(t, original, got)
	}
}
