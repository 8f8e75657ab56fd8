package namespacemap

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNamesThatAConsumerMayChoose(t *testing.T) {
	cases := map[string]struct {
		remote   string
		reserved []string
		tenants  []string
		refused  bool
	}{
		"its own, made of the local name and its ID":        {remote: "shop-rome"},
		"any other that nobody has":                         {remote: "shop"},
		"not those of Kubernetes":                           {remote: "kube-dns", refused: true},
		"nor the default one":                               {remote: "default", refused: true},
		"nor Longshore's own":                               {remote: "longshore", refused: true},
		"nor that of a peer that is not there yet":          {remote: "liqo-tenant-oslo", refused: true},
		"nor its own tenant namespace":                      {remote: "liqo-tenant-rome", refused: true},
		"nor names of another consumer":                     {remote: "shop-oslo", tenants: []string{"oslo", "rome"}, refused: true},
		"a name of another cluster that is no consumer":     {remote: "shop-oslo", tenants: []string{"rome"}},
		"the longer of two IDs has the name":                {remote: "shop-new-rome", tenants: []string{"new-rome", "rome"}, refused: true},
		"the shorter one does not get those of the longer":  {remote: "shop-rome", tenants: []string{"new-rome", "rome"}},
		"not what the provider keeps for itself":            {remote: "cert-manager", reserved: []string{"istio-*", "cert-manager"}, refused: true},
		"a pattern spares names with the consumer's own ID": {remote: "shop-rome", reserved: []string{"*"}},
		"and no others":                                     {remote: "shop", reserved: []string{"*"}, refused: true},
		"an own ID does not open names of Kubernetes":       {remote: "kube-rome", refused: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			names := Names{Own: "longshore", Reserved: tc.reserved}
			require.NoError(t, names.Validate())
			err := names.Check(tc.remote, "rome", tc.tenants)
			if tc.refused {
				require.ErrorIs(t, err, errReserved)
				return
			}
			assert.NoError(t, err)
		})
	}
}

func TestAPatternThatCannotBeParsedIsNamed(t *testing.T) {
	assert.ErrorContains(t, (&Names{Reserved: []string{"ok-*", "bad-["}}).Validate(), `"bad-["`)
}
