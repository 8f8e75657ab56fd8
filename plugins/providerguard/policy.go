package main

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/guest"
	"github.com/longshore-dev/longshore/sdk/guest/shadowpodadmission"
	"github.com/longshore-dev/longshore/sdk/guest/strictjson"
)

// config is the form of spec.settings. Without settings, only privileged containers and host
// paths are denied.
type config struct {
	// RequireLimits are the resources that every container must limit.
	RequireLimits []string
	// DefaultRequests are the requests of containers that neither request nor limit a resource.
	DefaultRequests []strictjson.Pair
}

// readConfig reads spec.settings field by field, so that a misspelled one is an error.
func readConfig(s guest.Settings) (config, error) {
	var c config
	err := strictjson.Decode(s, strictjson.Strings("requireLimits", &c.RequireLimits), strictjson.Pairs("defaultRequests", &c.DefaultRequests))
	return c, err
}

// lists are the lists of containers that a pod is created with.
var lists = []string{"initContainers", "containers"}

// manifest declares the least that the policy needs. It sees neither images nor environments.
func manifest() contract.Manifest {
	point := contract.PointManifest{Point: contract.ShadowPodAdmission, Reads: []string{"/object/spec/volumes[*]/hostPath", "/object/spec/volumes[*]/name"}}
	for _, list := range lists {
		for _, field := range []string{"name", "resources/limits", "resources/requests", "securityContext/privileged"} {
			point.Reads = append(point.Reads, "/object/spec/"+list+"[*]/"+field)
		}
		point.Writes = append(point.Writes, contract.WriteRule{Path: "/spec/" + list + "[*]/resources/requests", Verbs: []contract.Verb{contract.VerbMerge}})
	}
	return contract.Manifest{Name: "provider-guard", Version: "1.0.0", Points: []contract.PointManifest{point}}
}

// checkSettings refuses settings that could not do what their author meant.
func checkSettings(s guest.Settings) error {
	c, err := readConfig(s)
	if err != nil {
		return err
	}
	for i, name := range c.RequireLimits {
		if name == "" {
			return errors.New("spec.settings.requireLimits[" + strconv.Itoa(i) + "] is empty: want the name of a resource such as memory")
		}
	}
	for _, request := range c.DefaultRequests {
		if !isQuantity(request.Value) {
			return errors.New("spec.settings.defaultRequests[" + strconv.Quote(request.Key) + "] is " + strconv.Quote(request.Value) + ": want an amount such as 100m or 64Mi")
		}
	}
	return nil
}

// isQuantity reports whether Kubernetes would accept a text as an amount, apart from exponents.
func isQuantity(text string) bool {
	number := strings.TrimRight(text, "mkMGTPEi")
	digits := strings.Replace(number, ".", "", 1)
	return digits != "" && strings.Trim(digits, "0123456789") == "" &&
		slices.Contains([]string{"", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}, text[len(number):])
}

// guard answers the point.
func guard(r *shadowpodadmission.Request) (*guest.Answer, error) {
	c, err := readConfig(r.Settings)
	if err != nil {
		return nil, err
	}
	spec := &r.Facts.Object.Spec
	for _, volume := range spec.Volumes {
		if len(volume.HostPath) > 0 {
			return deny("HostPath", "volume "+volume.Name+" is a path of the node; use a claim or an emptyDir")
		}
	}
	answer := &guest.Answer{}
	for i, containers := range [][]contract.Container{spec.InitContainers, spec.Containers} {
		for _, container := range containers {
			denial, missing, err := c.check(container)
			if err != nil {
				return nil, err
			}
			if denial != nil {
				return &guest.Answer{Deny: denial}, nil
			}
			if len(missing) > 0 {
				path := "/spec/" + lists[i] + "[name=" + container.Name + "]/resources/requests"
				answer.Operations = append(answer.Operations, contract.Merge(path, missing))
			}
		}
	}
	return answer, nil
}

func deny(reason, message string) (*guest.Answer, error) {
	return &guest.Answer{Deny: &contract.Denial{Reason: reason, Message: message}}, nil
}

// check returns why a container is denied, or the requests that it lacks.
func (c *config) check(container contract.Container) (*contract.Denial, contract.StringMap, error) {
	var limits, requests []string
	var claims []byte
	if err := strictjson.Decode(guest.Settings(container.Resources),
		strictjson.Keys("limits", &limits), strictjson.Keys("requests", &requests), strictjson.Raw("claims", &claims)); err != nil {
		return nil, nil, errors.New("reading the resources of container " + container.Name + ": " + err.Error())
	}
	if container.SecurityContext != nil && container.SecurityContext.Privileged {
		return &contract.Denial{Reason: "Privileged", Message: "container " + container.Name + " is privileged"}, nil, nil
	}
	for _, name := range c.RequireLimits {
		if !slices.Contains(limits, name) {
			return &contract.Denial{Reason: "LimitRequired", Message: "container " + container.Name + " has no limit of " + name}, nil, nil
		}
	}
	missing := contract.StringMap{}
	for _, request := range c.DefaultRequests {
		// Kubernetes takes a limit for the request.
		if !slices.Contains(requests, request.Key) && !slices.Contains(limits, request.Key) {
			missing[request.Key] = request.Value
		}
	}
	return nil, missing, nil
}
