package main

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/guest"
	"github.com/longshore-dev/longshore/sdk/guest/resourcesliceadmission"
	"github.com/longshore-dev/longshore/sdk/guest/strictjson"
)

const grantedPath = "/status/resources"

// config is the form of spec.settings.
type config struct {
	Tenants []tenant
	// DenyOthers denies tenants that are not listed.
	DenyOthers bool
}

// tenant is a consumer and the most that each of its slices is granted.
type tenant struct {
	ClusterID string
	Resources []strictjson.Pair
}

func readConfig(s guest.Settings) (config, error) {
	var c config
	err := strictjson.Decode(s, strictjson.Bool("denyOthers", &c.DenyOthers), strictjson.List("tenants", &c.Tenants, func(t *tenant) []strictjson.Field {
		return []strictjson.Field{strictjson.String("clusterID", &t.ClusterID), strictjson.Pairs("resources", &t.Resources)}
	}))
	return c, err
}

// manifest declares the least that the policy needs.
func manifest() contract.Manifest {
	return contract.Manifest{Name: "tenant-cap", Version: "1.0.0", Points: []contract.PointManifest{{
		Point:  contract.ResourceSliceAdmission,
		Reads:  []string{"/object/status/resources", "/tenant/clusterID"},
		Writes: []contract.WriteRule{{Path: grantedPath, Verbs: []contract.Verb{contract.VerbMerge}}},
	}}}
}

// checkSettings refuses settings that could not do what their author meant.
func checkSettings(s guest.Settings) error {
	c, err := readConfig(s)
	if err != nil {
		return err
	}
	for i, t := range c.Tenants {
		place := "spec.settings.tenants[" + strconv.Itoa(i) + "]"
		if t.ClusterID == "" {
			return errors.New(place + ".clusterID is empty: want the ID of a consumer")
		}
		for _, limit := range t.Resources {
			if _, err := parse(limit.Value); err != nil {
				return errors.New(place + ".resources[" + strconv.Quote(limit.Key) + "]: " + err.Error())
			}
		}
	}
	return nil
}

// limit answers the point.
func limit(r *resourcesliceadmission.Request) (*guest.Answer, error) {
	c, err := readConfig(r.Settings)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(c.Tenants, func(t tenant) bool { return t.ClusterID == r.Facts.Tenant.ClusterID })
	if at < 0 {
		if c.DenyOthers {
			return &guest.Answer{Deny: &contract.Denial{Reason: "UnknownTenant", Message: "cluster " + r.Facts.Tenant.ClusterID + " is not among the tenants of this provider"}}, nil
		}
		return nil, nil
	}
	less := contract.StringMap{}
	for _, most := range c.Tenants[at].Resources {
		amount, granted := r.Facts.Object.Status.Resources[most.Key]
		if !granted {
			continue
		}
		have, err := parse(amount)
		if err != nil {
			return nil, errors.New("reading the grant of " + most.Key + ": " + err.Error())
		}
		bound, err := parse(most.Value)
		if err != nil {
			return nil, err
		}
		if have > bound {
			less[most.Key] = most.Value
		}
	}
	if len(less) == 0 {
		return nil, nil
	}
	return &guest.Answer{Operations: []contract.Operation{contract.Merge(grantedPath, less)}}, nil
}

// suffixes are those of Kubernetes' quantities.
var suffixes = map[string]float64{
	"": 1, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
	"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50, "Ei": 1 << 60,
}

// parse reads a quantity of Kubernetes.
func parse(quantity string) (float64, error) {
	number := strings.TrimRight(quantity, "numkMGTPEi")
	factor, ok := suffixes[quantity[len(number):]]
	value, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || strings.Trim(number[:1], "0123456789.") != "" {
		return 0, errors.New(strconv.Quote(quantity) + " is not an amount such as 32 or 64Gi")
	}
	return value * factor, nil
}
