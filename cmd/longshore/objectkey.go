package main

import (
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// objectKey is a flag of the form namespace/name.
type objectKey struct{ key *client.ObjectKey }

// String implements pflag.Value.
func (k objectKey) String() string {
	if k.key == nil || k.key.Name == "" {
		return ""
	}
	return k.key.String()
}

// Set implements pflag.Value.
func (k objectKey) Set(value string) error {
	parsed, err := parseObjectKey(value)
	if err != nil {
		return err
	}
	*k.key = parsed
	return nil
}

// Type implements pflag.Value.
func (k objectKey) Type() string { return "namespace/name" }

func parseObjectKey(value string) (client.ObjectKey, error) {
	namespace, name, ok := strings.Cut(value, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return client.ObjectKey{}, fmt.Errorf("%q is not of the form namespace/name", value)
	}
	return client.ObjectKey{Namespace: namespace, Name: name}, nil
}
