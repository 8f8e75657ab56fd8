package main

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/guest"
	"github.com/longshore-dev/longshore/sdk/guest/podmutation"
	"github.com/longshore-dev/longshore/sdk/guest/strictjson"
)

const (
	// residencyAnnotation of a pod lists the regions in which its data may be, such as
	// "eu-west, eu-north".
	residencyAnnotation = "example.com/data-residency"
	// regionLabel of a VirtualNode is the region of its provider.
	regionLabel = "topology.kubernetes.io/region"
)

// config is the form of spec.settings.
type config struct {
	// Default are the regions of pods without the annotation; none allows all.
	Default []string
}

func readConfig(s guest.Settings) (config, error) {
	var c config
	err := strictjson.Decode(s, strictjson.Strings("default", &c.Default))
	return c, err
}

// manifest declares one annotation of the pod, the region and the name of the node, and no
// write: a policy that only denies cannot change a pod.
func manifest() contract.Manifest {
	return contract.Manifest{
		Name:    "residency",
		Version: "1.0.0",
		Points: []contract.PointManifest{{
			Point:   contract.PodMutation,
			Moments: []contract.Moment{contract.MomentOffload},
			Reads: []string{
				"/local/metadata/annotations/" + strings.ReplaceAll(residencyAnnotation, "/", "~1"),
				"/virtualNode/labels/" + strings.ReplaceAll(regionLabel, "/", "~1"),
				"/virtualNode/name",
			},
		}},
	}
}

// checkSettings refuses regions that no label can name.
func checkSettings(s guest.Settings) error {
	c, err := readConfig(s)
	if err != nil {
		return err
	}
	for i, region := range c.Default {
		if region == "" || strings.ContainsAny(region, ", \t") {
			return errors.New("spec.settings.default[" + strconv.Itoa(i) + "] is " + strconv.Quote(region) + ": want the name of one region")
		}
	}
	return nil
}

// guard answers the point.
func guard(r *podmutation.Request) (*guest.Answer, error) {
	c, err := readConfig(r.Settings)
	if err != nil {
		return nil, err
	}
	allowed := c.Default
	if r.Facts.Local != nil {
		if list, found := r.Facts.Local.Metadata.Annotations[residencyAnnotation]; found {
			allowed = regions(list)
			if len(allowed) == 0 {
				return deny("InvalidDataResidency", "the annotation "+residencyAnnotation+" names no region: list regions such as \"eu-west, eu-north\", or remove it"), nil
			}
		}
	}
	if len(allowed) == 0 || r.Facts.VirtualNode == nil {
		return nil, nil
	}
	node, region := r.Facts.VirtualNode, r.Facts.VirtualNode.Labels[regionLabel]
	switch {
	case region == "":
		return deny("UnknownRegion", "the data of the pod may be in "+strings.Join(allowed, ", ")+" only, and virtual node "+node.Name+
			" has no label "+regionLabel+": the operator must add it to the VirtualNode's spec.labels"), nil
	case !slices.Contains(allowed, region):
		return deny("DataResidency", "the data of the pod may be in "+strings.Join(allowed, ", ")+" only, and virtual node "+node.Name+
			" is in "+region+": give the pod a node selector for an allowed region"), nil
	default:
		return nil, nil
	}
}

func deny(reason, message string) *guest.Answer {
	return &guest.Answer{Deny: &contract.Denial{Reason: reason, Message: message}}
}

// regions reads a list of names that are separated by commas or spaces.
func regions(list string) []string {
	return strings.FieldsFunc(list, func(c rune) bool { return c == ',' || c == ' ' || c == '\t' })
}
