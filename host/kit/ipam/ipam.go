// Package ipam computes IPv4 networks and addresses: which CIDR a network gets, which address is
// the next free one of a network, and what an address is in a remapped network.
//
// All functions are pure. The state are Network and IP objects, which callers pass in.
package ipam

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"go4.org/netipx"
)

var (
	// ErrNotIPv4 is in the error of a CIDR of another family.
	ErrNotIPv4 = errors.New("only IPv4 is supported")
	// ErrNoPool is returned without a network to allocate from.
	ErrNoPool = errors.New("no pool: CIDRs are allocated from at least one")
	// ErrOutsidePools is in the error of a fixed CIDR that the pools do not contain.
	ErrOutsidePools = errors.New("outside the pools")
	// ErrNoFreeCIDR is in the error of a network for which the pools have no room.
	ErrNoFreeCIDR = errors.New("no free CIDR")
)

// OverlapError reports two networks of which one must not overlap the other.
type OverlapError struct {
	// CIDR is the network that is requested, Other the one that has its CIDR.
	CIDR, Other netip.Prefix
}

// Error implements error.
func (e *OverlapError) Error() string { return fmt.Sprintf("CIDR %s overlaps %s", e.CIDR, e.Other) }

// ParseCIDR parses an IPv4 network and clears its host bits.
func ParseCIDR(cidr string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(cidr)
	switch {
	case err != nil:
		return netip.Prefix{}, fmt.Errorf("parsing CIDR %q: %w", cidr, err)
	case !prefix.Addr().Is4():
		return netip.Prefix{}, fmt.Errorf("invalid CIDR %q: %w", cidr, ErrNotIPv4)
	}
	return prefix.Masked(), nil
}

// IsIPv6 reports whether a CIDR is a valid one of IPv6, whose addresses are the same in all clusters.
func IsIPv6(cidr string) bool {
	prefix, err := netip.ParsePrefix(cidr)
	return err == nil && prefix.Addr().Is6()
}

// ParsePools parses the networks that CIDRs are allocated from. They must not overlap.
func ParsePools(cidrs []string) ([]netip.Prefix, error) {
	if len(cidrs) == 0 {
		return nil, ErrNoPool
	}
	pools := make([]netip.Prefix, 0, len(cidrs))
	for _, cidr := range cidrs {
		pool, err := ParseCIDR(cidr)
		if err != nil {
			return nil, err
		}
		for _, other := range pools {
			if pool.Overlaps(other) {
				return nil, fmt.Errorf("pools %s and %s overlap", other, pool)
			}
		}
		pools = append(pools, pool)
	}
	return pools, nil
}

// Network is a network that has a CIDR or requests one.
type Network struct {
	CIDR netip.Prefix
	// Fixed networks get exactly their CIDR, or none; others may get another one of the same
	// length.
	Fixed bool
	// Shared networks may overlap each other. It has a meaning for fixed networks only.
	Shared bool
}

// mayOverlap reports whether two networks may have addresses in common.
func (n Network) mayOverlap(other Network) bool {
	return n.Fixed && n.Shared && other.Fixed && other.Shared
}

// Allocate returns the CIDR of a network: its own one if that is within the pools and free,
// otherwise, unless the network is fixed, a free one of the same length. taken are the networks
// that have a CIDR. A fixed network that is shared may be outside of the pools.
func Allocate(pools []netip.Prefix, taken []Network, want Network) (netip.Prefix, error) {
	free, err := freeSet(pools, nil)
	if err != nil {
		return netip.Prefix{}, err
	}
	conflict := conflictOf(taken, want)
	switch isWithin := free.ContainsPrefix(want.CIDR); {
	case conflict == nil && (isWithin || want.Fixed && want.Shared):
		return want.CIDR, nil
	case want.Fixed && conflict != nil:
		return netip.Prefix{}, &OverlapError{CIDR: want.CIDR, Other: conflict.CIDR}
	case want.Fixed:
		return netip.Prefix{}, fmt.Errorf("CIDR %s is %w", want.CIDR, ErrOutsidePools)
	}
	if free, err = freeSet(pools, taken); err != nil {
		return netip.Prefix{}, err
	}
	prefix, _, ok := free.RemoveFreePrefix(uint8(want.CIDR.Bits()))
	if !ok {
		return netip.Prefix{}, fmt.Errorf("%w of length /%d in the pools", ErrNoFreeCIDR, want.CIDR.Bits())
	}
	return prefix, nil
}

// conflictOf returns a network that another must not overlap, or nil.
func conflictOf(taken []Network, want Network) *Network {
	for i := range taken {
		if taken[i].CIDR.Overlaps(want.CIDR) && !want.mayOverlap(taken[i]) {
			return &taken[i]
		}
	}
	return nil
}

func freeSet(pools []netip.Prefix, taken []Network) (*netipx.IPSet, error) {
	var builder netipx.IPSetBuilder
	for _, pool := range pools {
		builder.AddPrefix(pool)
	}
	for i := range taken {
		builder.RemovePrefix(taken[i].CIDR)
	}
	set, err := builder.IPSet()
	if err != nil {
		return nil, fmt.Errorf("computing the free addresses: %w", err)
	}
	return set, nil
}

// NextIP returns the first free address of a network after the given one, from the start of the
// network when it reaches its end. The first preAllocated addresses are not given out. All others
// are, those of the network and of its broadcast too. It returns false if none is free.
func NextIP(network netip.Prefix, preAllocated uint32, taken map[netip.Addr]bool, after netip.Addr) (netip.Addr, bool) {
	size := uint64(1) << (32 - network.Bits())
	start := uint64(preAllocated)
	if start >= size {
		return netip.Addr{}, false
	}
	base := number(network.Masked().Addr())
	next := start
	if network.Contains(after) {
		next = uint64(number(after)-base) + 1
	}
	for range size - start {
		if next >= size || next < start {
			next = start
		}
		if ip := address(base + uint32(next)); !taken[ip] {
			return ip, true
		}
		next++
	}
	return netip.Addr{}, false
}

// Remap returns what an address of one network is in another of the same length: it keeps the
// host bits. It returns false if the address is not of the first network, or the lengths differ.
func Remap(ip netip.Addr, from, to netip.Prefix) (netip.Addr, bool) {
	if !from.Contains(ip) || from.Bits() != to.Bits() || !to.Addr().Is4() {
		return netip.Addr{}, false
	}
	hostMask := uint32(uint64(1)<<(32-from.Bits()) - 1)
	return address(number(to.Masked().Addr()) | number(ip)&hostMask), true
}

func number(ip netip.Addr) uint32 {
	bytes := ip.As4()
	return binary.BigEndian.Uint32(bytes[:])
}

func address(n uint32) netip.Addr {
	var bytes [4]byte
	binary.BigEndian.PutUint32(bytes[:], n)
	return netip.AddrFrom4(bytes)
}
