package module

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"unicode"

	"github.com/longshore-dev/longshore/host/kit/jsonvalue"
	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// Bounds of a manifest.
const (
	maxNameBytes    = 63
	maxVersionBytes = 64
	maxPaths        = 256
)

// dnsLabel is a DNS label of RFC 1123.
var dnsLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// parseManifest decodes and checks a manifest.
func parseManifest(data []byte) (*contract.Manifest, error) {
	var m contract.Manifest
	if err := jsonvalue.DecodeStrictly(data, &m); err != nil {
		return nil, err
	}
	switch {
	case len(m.Name) > maxNameBytes || !dnsLabel.MatchString(m.Name):
		return nil, fmt.Errorf("name %q is not a DNS label (lower-case letters, digits and dashes, at most %d)", m.Name, maxNameBytes)
	case len(m.Version) > maxVersionBytes || !printable(m.Version):
		return nil, fmt.Errorf("version %q is longer than %d bytes or not printable", m.Version, maxVersionBytes)
	case len(m.Contracts) == 0:
		return nil, fmt.Errorf("contracts is empty, it must list the contract versions that the module speaks, such as %q", contract.Version)
	case len(m.Points) == 0:
		return nil, errors.New("points is empty, a module must answer at least one extension point")
	}
	seen := map[contract.Point]bool{}
	for i := range m.Points {
		p := &m.Points[i]
		if p.Point.Export() == "" {
			return nil, fmt.Errorf("point %q is unknown to this host, which knows %v", p.Point, contract.Points())
		}
		if seen[p.Point] {
			return nil, fmt.Errorf("point %s is declared twice", p.Point)
		}
		seen[p.Point] = true
		if err := checkPoint(p); err != nil {
			return nil, fmt.Errorf("point %s: %w", p.Point, err)
		}
	}
	return &m, nil
}

func printable(text string) bool {
	for _, r := range text {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

func checkPoint(p *contract.PointManifest) error {
	for i, moment := range p.Moments {
		switch {
		case p.Point != contract.PodMutation:
			return fmt.Errorf("it has no moments, only %s has", contract.PodMutation)
		case moment != contract.MomentAdmission && moment != contract.MomentOffload:
			return fmt.Errorf("moment %q is unknown", moment)
		case slices.Contains(p.Moments[:i], moment):
			return fmt.Errorf("moment %s is listed twice", moment)
		}
	}
	reads := p.ReadsOf(true)
	if len(reads) > maxPaths || len(p.Writes) > maxPaths {
		return fmt.Errorf("it has more than %d reads or writes", maxPaths)
	}
	for _, path := range reads {
		if _, err := operation.ParsePath(path); err != nil {
			return fmt.Errorf("reads: %w", err)
		}
	}
	if _, err := operation.CompileRules(p.Writes); err != nil {
		return fmt.Errorf("writes: %w", err)
	}
	return nil
}
