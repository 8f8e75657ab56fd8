package main

import (
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

func parseObjectKey(value string) (client.ObjectKey, error) {
	namespace, name, ok := strings.Cut(value, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return client.ObjectKey{}, fmt.Errorf("%q is not of the form namespace/name", value)
	}
	return client.ObjectKey{Namespace: namespace, Name: name}, nil
}
