package namespacemap

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNamesCheck(t *testing.T) {
	cases := map[string]struct {
		remote   string
		reserved []string
		tenants  []string
		rejected bool
	}{
		"a name with the own ID":                                           {remote: "shop-rome"},
		"any other name":                                                   {remote: "shop"},
		"a name of Kubernetes":                                             {remote: "kube-dns", rejected: true},
		"the default namespace":                                            {remote: "default", rejected: true},
		"Longshore's own namespace":                                        {remote: "longshore", rejected: true},
		"the tenant namespace of a cluster that is not a peer":             {remote: "liqo-tenant-oslo", rejected: true},
		"the own tenant namespace":                                         {remote: "liqo-tenant-rome", rejected: true},
		"a name with the ID of another consumer":                           {remote: "shop-oslo", tenants: []string{"oslo", "rome"}, rejected: true},
		"a name with the ID of a cluster that is not a consumer":           {remote: "shop-oslo", tenants: []string{"rome"}},
		"a name with the ID of another consumer that ends in the own ID":   {remote: "shop-new-rome", tenants: []string{"new-rome", "rome"}, rejected: true},
		"a name with the own ID, in which the ID of another consumer ends": {remote: "shop-rome", tenants: []string{"new-rome", "rome"}},
		"a name that the provider reserves":                                {remote: "cert-manager", reserved: []string{"istio-*", "cert-manager"}, rejected: true},
		"a name with the own ID that matches a pattern":                    {remote: "shop-rome", reserved: []string{"*"}},
		"another name that matches a pattern":                              {remote: "shop", reserved: []string{"*"}, rejected: true},
		"a name of Kubernetes with the own ID":                             {remote: "kube-rome", rejected: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			names := Names{Own: "longshore", Reserved: tc.reserved}
			require.NoError(t, names.Validate())
			err := names.Check(tc.remote, "rome", tc.tenants)
			if tc.rejected {
				require.ErrorIs(t, err, errReserved)
				return
			}
			assert.NoError(t, err)
		})
	}
}

// The API server would be asked in vain, each time.
func TestNamesThatNoNamespaceCanHave(t *testing.T) {
	for _, remote := range []string{"", "UPPER", "a.b", "a_b", "-a", "a-", strings.Repeat("a", 64), "x\ny"} {
		err := (&Names{}).Check(remote, "rome", nil)
		require.ErrorIs(t, err, errInvalidName, "%q", remote)
		assert.True(t, needsChange(err))
	}
}

func TestNamesValidate(t *testing.T) {
	assert.ErrorContains(t, (&Names{Reserved: []string{"ok-*", "bad-["}}).Validate(), `"bad-["`)
}
