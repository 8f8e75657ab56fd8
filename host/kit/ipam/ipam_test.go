package ipam_test

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/kit/ipam"
)

func prefixes(cidrs ...string) []netip.Prefix {
	var parsed []netip.Prefix
	for _, cidr := range cidrs {
		parsed = append(parsed, netip.MustParsePrefix(cidr))
	}
	return parsed
}

func shared(cidr string) ipam.Network {
	return ipam.Network{CIDR: netip.MustParsePrefix(cidr), Fixed: true, Shared: true}
}

func overlap(cidr, other string) error {
	return &ipam.OverlapError{CIDR: netip.MustParsePrefix(cidr), Other: netip.MustParsePrefix(other)}
}

func exclusive(cidr string) ipam.Network {
	return ipam.Network{CIDR: netip.MustParsePrefix(cidr)}
}

func TestParseCIDR(t *testing.T) {
	for name, tc := range map[string]struct {
		cidr, want string
		// isIPv6 and isInvalid are why a CIDR is refused.
		isIPv6, isInvalid bool
	}{
		"a network":                              {cidr: "10.244.0.0/16", want: "10.244.0.0/16"},
		"host bits are cleared":                  {cidr: "10.244.3.4/16", want: "10.244.0.0/16"},
		"IPv6 is not supported":                  {cidr: "fd00::/64", isIPv6: true},
		"IPv4 in IPv6 is not supported":          {cidr: "::ffff:10.0.0.0/104", isIPv6: true},
		"what is not a CIDR is an error":         {cidr: "10.0.0.0", isInvalid: true},
		"a CIDR of no length is an error":        {cidr: "", isInvalid: true},
		"the whole address space is not refused": {cidr: "0.0.0.0/0", want: "0.0.0.0/0"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ipam.ParseCIDR(tc.cidr)
			if tc.isIPv6 || tc.isInvalid {
				require.ErrorContains(t, err, strconv.Quote(tc.cidr))
				assert.Equal(t, tc.isIPv6, errors.Is(err, ipam.ErrNotIPv4), err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.want, got.String())
		})
	}
}

func TestParsePools(t *testing.T) {
	pools, err := ipam.ParsePools([]string{"10.0.0.0/8", "192.168.0.0/16"})
	require.NoError(t, err)
	assert.Equal(t, prefixes("10.0.0.0/8", "192.168.0.0/16"), pools)
	_, err = ipam.ParsePools([]string{"10.0.0.0/8", "10.1.0.0/16"})
	require.EqualError(t, err, "pools 10.0.0.0/8 and 10.1.0.0/16 overlap")
	_, err = ipam.ParsePools(nil)
	require.ErrorIs(t, err, ipam.ErrNoPool)
	_, err = ipam.ParsePools([]string{"fd00::/8"})
	require.ErrorIs(t, err, ipam.ErrNotIPv4)
}

func TestAllocate(t *testing.T) {
	pools := prefixes("10.0.0.0/8", "192.168.0.0/16")
	for name, tc := range map[string]struct {
		want   ipam.Network
		taken  []ipam.Network
		pools  []netip.Prefix
		result string
		// err is the error, or what it wraps.
		err error
	}{
		"a free CIDR stays":                                        {want: exclusive("10.244.0.0/16"), result: "10.244.0.0/16"},
		"a taken CIDR is remapped":                                 {want: exclusive("10.244.0.0/16"), taken: []ipam.Network{shared("10.244.0.0/16")}, result: "10.245.0.0/16"},
		"a CIDR within a taken one is remapped":                    {want: exclusive("10.244.7.0/24"), taken: []ipam.Network{shared("10.244.0.0/16")}, result: "10.245.0.0/24"},
		"a CIDR around a taken one is remapped":                    {want: exclusive("10.0.0.0/9"), taken: []ipam.Network{exclusive("10.1.0.0/16")}, result: "10.128.0.0/9"},
		"small CIDRs fill what is split already":                   {want: exclusive("10.0.0.0/24"), taken: []ipam.Network{exclusive("10.0.0.0/24")}, pools: prefixes("10.0.0.0/8"), result: "10.0.1.0/24"},
		"a CIDR outside the pools is remapped into them":           {want: exclusive("100.64.0.0/16"), taken: []ipam.Network{shared("192.168.0.0/16")}, result: "10.0.0.0/16"},
		"a full pool is an error":                                  {want: exclusive("10.0.0.0/7"), err: ipam.ErrNoFreeCIDR},
		"a fixed CIDR that is shared may overlap shared ones":      {want: shared("10.96.0.0/12"), taken: []ipam.Network{shared("10.96.0.0/16")}, result: "10.96.0.0/12"},
		"a fixed CIDR that is shared may not overlap others":       {want: shared("10.96.0.0/12"), taken: []ipam.Network{exclusive("10.96.0.0/16")}, err: overlap("10.96.0.0/12", "10.96.0.0/16")},
		"a fixed CIDR that is shared may be outside the pools":     {want: shared("100.64.0.0/10"), result: "100.64.0.0/10"},
		"a fixed CIDR that is exclusive gets itself":               {want: ipam.Network{CIDR: netip.MustParsePrefix("10.70.0.0/16"), Fixed: true}, result: "10.70.0.0/16"},
		"a fixed CIDR that is exclusive must be within a pool":     {want: ipam.Network{CIDR: netip.MustParsePrefix("100.64.0.0/16"), Fixed: true}, err: ipam.ErrOutsidePools},
		"a fixed CIDR that is exclusive may not overlap any":       {want: ipam.Network{CIDR: netip.MustParsePrefix("10.70.0.0/16"), Fixed: true}, taken: []ipam.Network{shared("10.70.3.0/24")}, err: overlap("10.70.0.0/16", "10.70.3.0/24")},
		"networks outside the pools take nothing":                  {want: exclusive("10.0.0.0/8"), taken: []ipam.Network{shared("100.64.0.0/10")}, result: "10.0.0.0/8"},
		"a CIDR that spans two pools is not within one of the two": {want: exclusive("10.0.0.0/7"), pools: prefixes("10.0.0.0/8", "11.0.0.0/8"), result: "10.0.0.0/7"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.pools == nil {
				tc.pools = pools
			}
			got, err := ipam.Allocate(tc.pools, tc.taken, tc.want)
			if overlap, ok := errors.AsType[*ipam.OverlapError](err); ok {
				assert.Equal(t, tc.err, overlap)
				return
			}
			if tc.err != nil {
				require.ErrorIs(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.result, got.String())
		})
	}

	// What operators read.
	require.EqualError(t, overlap("10.96.0.0/12", "10.96.0.0/16"), "CIDR 10.96.0.0/12 overlaps 10.96.0.0/16")
	_, err := ipam.Allocate(pools, nil, ipam.Network{CIDR: netip.MustParsePrefix("100.64.0.0/16"), Fixed: true})
	require.EqualError(t, err, "CIDR 100.64.0.0/16 is outside the pools")
	_, err = ipam.Allocate(pools, nil, exclusive("10.0.0.0/7"))
	require.EqualError(t, err, "no free CIDR of length /7 in the pools")
}

func TestNextIP(t *testing.T) {
	taken := func(ips ...string) map[netip.Addr]bool {
		set := map[netip.Addr]bool{}
		for _, ip := range ips {
			set[netip.MustParseAddr(ip)] = true
		}
		return set
	}
	for name, tc := range map[string]struct {
		cidr, after  string
		preAllocated uint32
		taken        map[netip.Addr]bool
		want         string
	}{
		"the network address is used":                      {cidr: "10.70.0.0/30", want: "10.70.0.0"},
		"preallocated addresses are not given out":         {cidr: "10.70.0.0/30", preAllocated: 1, want: "10.70.0.1"},
		"the search begins after the last address":         {cidr: "10.70.0.0/24", after: "10.70.0.9", want: "10.70.0.10"},
		"taken addresses are skipped":                      {cidr: "10.70.0.0/24", after: "10.70.0.9", taken: taken("10.70.0.10"), want: "10.70.0.11"},
		"after the last address of the network, it wraps":  {cidr: "10.70.0.0/30", after: "10.70.0.3", preAllocated: 1, want: "10.70.0.1"},
		"the broadcast address is used":                    {cidr: "10.70.0.0/30", after: "10.70.0.2", want: "10.70.0.3"},
		"an address outside the network is not a start":    {cidr: "10.70.0.0/30", after: "10.71.0.2", want: "10.70.0.0"},
		"the last free address is the one searched after":  {cidr: "10.70.0.0/31", after: "10.70.0.1", taken: taken("10.70.0.0"), want: "10.70.0.1"},
		"a full network has none":                          {cidr: "10.70.0.0/31", taken: taken("10.70.0.0", "10.70.0.1")},
		"a network that is preallocated has none":          {cidr: "10.70.0.0/31", preAllocated: 2},
		"more preallocated than there are addresses: none": {cidr: "10.70.0.0/31", preAllocated: 200},
		"the end of the address space":                     {cidr: "255.255.255.254/31", after: "255.255.255.255", want: "255.255.255.254"},
	} {
		t.Run(name, func(t *testing.T) {
			var after netip.Addr
			if tc.after != "" {
				after = netip.MustParseAddr(tc.after)
			}
			got, ok := ipam.NextIP(netip.MustParsePrefix(tc.cidr), tc.preAllocated, tc.taken, after)
			require.Equal(t, tc.want != "", ok)
			if ok {
				assert.Equal(t, tc.want, got.String())
			}
		})
	}
}

func TestRemap(t *testing.T) {
	for name, tc := range map[string]struct{ ip, from, to, want string }{
		"host bits stay":               {ip: "10.244.3.9", from: "10.244.0.0/16", to: "10.71.0.0/16", want: "10.71.3.9"},
		"a length within a byte":       {ip: "10.249.3.9", from: "10.240.0.0/12", to: "172.16.0.0/12", want: "172.25.3.9"},
		"equal networks":               {ip: "10.244.3.9", from: "10.244.0.0/16", to: "10.244.0.0/16", want: "10.244.3.9"},
		"one address":                  {ip: "10.0.0.1", from: "10.0.0.1/32", to: "10.9.9.9/32", want: "10.9.9.9"},
		"host bits of the target":      {ip: "10.244.3.9", from: "10.244.0.0/16", to: "10.71.255.255/16", want: "10.71.3.9"},
		"an address outside":           {ip: "10.245.3.9", from: "10.244.0.0/16", to: "10.71.0.0/16"},
		"IPv6":                         {ip: "fd00::1", from: "10.244.0.0/16", to: "10.71.0.0/16"},
		"networks of different length": {ip: "10.244.3.9", from: "10.244.0.0/16", to: "10.71.0.0/24"},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := ipam.Remap(netip.MustParseAddr(tc.ip), netip.MustParsePrefix(tc.from), netip.MustParsePrefix(tc.to))
			require.Equal(t, tc.want != "", ok)
			if ok {
				assert.Equal(t, tc.want, got.String())
			}
		})
	}
}

// Whatever is acquired and released in whatever order, exclusive networks overlap no network that
// is held, lengths stay, and a request is refused only if no CIDR of the length is free.
func TestAllocationsNeverOverlap(t *testing.T) {
	pools := prefixes("10.0.0.0/20", "192.168.0.0/22")
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		taken := []ipam.Network{shared("10.0.4.0/22"), shared("10.0.5.0/24")}
		for range 60 {
			if random.IntN(3) == 0 && len(taken) > 2 {
				at := 2 + random.IntN(len(taken)-2)
				taken = append(taken[:at], taken[at+1:]...)
				continue
			}
			length := 20 + random.IntN(9)
			base := netip.AddrFrom4([4]byte{10, 0, byte(random.IntN(16)), byte(random.IntN(256))})
			want := ipam.Network{CIDR: netip.PrefixFrom(base, length).Masked()}
			got, err := ipam.Allocate(pools, taken, want)
			if err != nil {
				assertFull(t, pools, taken, length)
				continue
			}
			require.Equal(t, length, got.Bits())
			for _, other := range taken {
				require.False(t, got.Overlaps(other.CIDR), "seed %d: %s overlaps %s", seed, got, other.CIDR)
			}
			require.True(t, pools[0].Contains(got.Addr()) || pools[1].Contains(got.Addr()))
			taken = append(taken, ipam.Network{CIDR: got})
		}
	}
}

// assertFull tries every CIDR of a length.
func assertFull(t *testing.T, pools []netip.Prefix, taken []ipam.Network, length int) {
	t.Helper()
	for _, pool := range pools {
		for addr := pool.Addr(); pool.Contains(addr); addr = addr.Next() {
			candidate := netip.PrefixFrom(addr, length).Masked()
			if candidate.Addr() != addr || length < pool.Bits() {
				continue
			}
			isFree := true
			for _, other := range taken {
				isFree = isFree && !candidate.Overlaps(other.CIDR)
			}
			require.False(t, isFree, "%s is free", candidate)
		}
	}
}

// A network gives out each of its addresses once.
func TestNextIPGivesOutEveryAddressOnce(t *testing.T) {
	network := netip.MustParsePrefix("10.70.0.0/26")
	taken, last := map[netip.Addr]bool{}, netip.Addr{}
	for range 63 {
		ip, ok := ipam.NextIP(network, 1, taken, last)
		require.True(t, ok)
		require.True(t, network.Contains(ip))
		require.False(t, taken[ip])
		taken[ip], last = true, ip
	}
	_, ok := ipam.NextIP(network, 1, taken, last)
	assert.False(t, ok)
}

func FuzzRemap(f *testing.F) {
	f.Add([]byte{10, 244, 3, 9}, []byte{10, 71, 0, 0}, uint8(16))
	f.Add([]byte{255, 255, 255, 255}, []byte{0, 0, 0, 0}, uint8(0))
	f.Fuzz(func(t *testing.T, from, to []byte, bits uint8) {
		ip, okIP := netip.AddrFromSlice(from)
		target, okTarget := netip.AddrFromSlice(to)
		if !okIP || !okTarget || !ip.Is4() || !target.Is4() || bits > 32 {
			return
		}
		source, destination := netip.PrefixFrom(ip, int(bits)).Masked(), netip.PrefixFrom(target, int(bits)).Masked()
		remapped, ok := ipam.Remap(ip, source, destination)
		if !ok || !destination.Contains(remapped) {
			t.Fatalf("%s of %s became %s, which is not of %s", ip, source, remapped, destination)
		}
		if back, ok := ipam.Remap(remapped, destination, source); !ok || back != ip {
			t.Fatalf("%s became %s and then %s", ip, remapped, back)
		}
	})
}
