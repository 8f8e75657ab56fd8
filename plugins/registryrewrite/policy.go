package main

import (
	"errors"
	"strconv"
	"strings"

	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/guest"
	"github.com/longshore-dev/longshore/sdk/guest/podmutation"
	"github.com/longshore-dev/longshore/sdk/guest/strictjson"
)

// config is the form of spec.settings.
type config struct {
	// Rewrites are tried in order; the first that fits an image decides.
	Rewrites []rewrite
}

// rewrite replaces the beginning of an image reference, at a slash.
type rewrite struct {
	// From is a registry or the path of a repository: "docker.io", "quay.io/team".
	From string
	// To takes its place: "mirror.example/hub".
	To string
}

// readConfig reads spec.settings field by field, so that a misspelled one is an error.
// encoding/json could do it too, in a module that is half as large again.
func readConfig(s guest.Settings) (config, error) {
	var c config
	err := strictjson.Decode(s, strictjson.List("rewrites", &c.Rewrites, func(r *rewrite) []strictjson.Field {
		return []strictjson.Field{strictjson.String("from", &r.From), strictjson.String("to", &r.To)}
	}))
	return c, err
}

// manifest declares the least that the policy needs: container names and images in,
// images out, and only when the remote pod is forged. The local pod keeps its images.
func manifest() contract.Manifest {
	return contract.Manifest{
		Name:    "registry-rewrite",
		Version: "1.0.0",
		Points: []contract.PointManifest{{
			Point:   contract.PodMutation,
			Moments: []contract.Moment{contract.MomentOffload},
			Reads: []string{
				"/object/spec/containers[*]/image",
				"/object/spec/containers[*]/name",
				"/object/spec/initContainers[*]/image",
				"/object/spec/initContainers[*]/name",
			},
			Writes: []contract.WriteRule{
				{Path: "/spec/containers[*]/image", Verbs: []contract.Verb{contract.VerbSet}},
				{Path: "/spec/initContainers[*]/image", Verbs: []contract.Verb{contract.VerbSet}},
			},
		}},
	}
}

// checkSettings refuses settings that could not do what their author meant.
func checkSettings(s guest.Settings) error {
	c, err := readConfig(s)
	if err != nil {
		return err
	}
	if len(c.Rewrites) == 0 {
		return errors.New("spec.settings.rewrites is empty: the policy would do nothing")
	}
	for i, r := range c.Rewrites {
		place := "spec.settings.rewrites[" + strconv.Itoa(i) + "]"
		if err := errors.Join(checkPath(place+".from", r.From), checkPath(place+".to", r.To)); err != nil {
			return err
		}
	}
	return nil
}

// checkPath refuses text with which no image reference can begin.
func checkPath(field, value string) error {
	if value == "" || strings.HasSuffix(value, "/") || strings.Contains(value, "://") {
		return errors.New(field + " is " + strconv.Quote(value) + ": want a registry or repository path such as docker.io/library")
	}
	return nil
}

// rewriteImages answers the point.
func rewriteImages(r *podmutation.Request) (*guest.Answer, error) {
	c, err := readConfig(r.Settings)
	if err != nil {
		return nil, err
	}
	spec := r.Facts.Object.Spec
	var operations []contract.Operation
	for _, list := range []struct {
		field      string
		containers []contract.Container
	}{
		{"initContainers", spec.InitContainers},
		{"containers", spec.Containers},
	} {
		for _, container := range list.containers {
			if image, ok := c.rewrite(container.Image); ok {
				path := "/spec/" + list.field + "[name=" + container.Name + "]/image"
				operations = append(operations, contract.Set(path, contract.String(image)))
			}
		}
	}
	return &guest.Answer{Operations: operations}, nil
}

// rewrite returns the new reference of an image, and false if it stays. An image
// that is at its mirror already stays, so rewriting twice is rewriting once.
func (c *config) rewrite(image string) (string, bool) {
	full := qualify(image)
	for _, r := range c.Rewrites {
		if below(full, r.To) {
			return "", false
		}
		if below(full, r.From) {
			return r.To + strings.TrimPrefix(full, r.From), true
		}
	}
	return "", false
}

// below reports whether a reference is a repository or lies below a registry or path.
func below(reference, prefix string) bool {
	rest, ok := strings.CutPrefix(reference, prefix)
	return ok && rest != "" && strings.ContainsRune("/:@", rune(rest[0])) || reference == prefix
}

// qualify writes out the registry that a short reference means: "web:1" is
// "docker.io/library/web:1", "team/web" is "docker.io/team/web". The first part is a
// registry if it has a dot or a port, or is localhost.
func qualify(image string) string {
	first, _, found := strings.Cut(image, "/")
	switch {
	case !found:
		return "docker.io/library/" + image
	case strings.ContainsAny(first, ".:") || first == "localhost":
		return image
	default:
		return "docker.io/" + image
	}
}
