package cluster

import (
	"fmt"
	"io"
	"net/http"
	"time"
)

// printer prints each request with its result, and no headers and bodies: these have credentials.
type printer struct {
	next http.RoundTripper
	out  io.Writer
}

// RoundTrip implements http.RoundTripper.
func (p *printer) RoundTrip(request *http.Request) (*http.Response, error) {
	start := time.Now()
	response, err := p.next.RoundTrip(request)
	result := ""
	if err != nil {
		result = err.Error()
	} else {
		result = response.Status
	}
	fmt.Fprintf(p.out, "%s %s: %s, %d ms\n", request.Method, request.URL.Redacted(), result, time.Since(start).Milliseconds())
	return response, err //nolint:wrapcheck // As the transport returns it.
}
