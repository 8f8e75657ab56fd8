// Package refusal tells what an API server refuses from what a retry may resolve.
package refusal

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Message returns why the API server or a webhook refuses an object. It is empty for errors that a
// retry may resolve.
func Message(err error) string {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return ""
	}
	status := answer.Status()
	switch status.Code {
	case http.StatusUnauthorized, http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return ""
	}
	// A webhook that cannot be reached is an internal error.
	if status.Code/100 == 4 || apierrors.IsInternalError(err) {
		return status.Message
	}
	return ""
}
