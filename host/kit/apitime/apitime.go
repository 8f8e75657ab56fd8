// Package apitime removes times that the Kubernetes API cannot have. Another cluster can send them: in JSON
// with an offset to UTC that leads beyond the year 9999, in protobuf as any number of seconds. An API server
// refuses the whole object with such a time.
package apitime

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// first is the earliest time that counts as one, and end the earliest that has no text.
var first, end = time.Unix(0, 0), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)

// Bound returns a time that has a text, or none.
func Bound(t metav1.Time) metav1.Time {
	if !isValid(t.Time) {
		return metav1.Time{}
	}
	return t
}

// BoundMicro is Bound for times of microseconds.
func BoundMicro(t metav1.MicroTime) metav1.MicroTime {
	if !isValid(t.Time) {
		return metav1.MicroTime{}
	}
	return t
}

func isValid(t time.Time) bool { return !t.Before(first) && t.Before(end) }
