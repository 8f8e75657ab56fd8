// Package alerts holds the tests of the chart's alerts: Prometheus' own engine evaluates them over
// series in which something is wrong, and over others in which all is well. It is a Go module of its
// own, so that no other needs Prometheus.
package alerts
