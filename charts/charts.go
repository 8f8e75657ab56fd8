// Package charts carries Longshore's Helm chart, so that the demo and the tests install
// from the same source as users do, wherever they run.
package charts

import "embed"

// Longshore is the chart, below the folder "longshore".
//
//go:embed all:longshore
var Longshore embed.FS
