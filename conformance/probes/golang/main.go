// Command golang is a Go policy that fails in the ways that Go programs do. The pod's
// label "probe" says which.
package main

import (
	"errors"
	"os"
	"sync"

	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/guest"
	"github.com/longshore-dev/longshore/sdk/guest/describe"
	"github.com/longshore-dev/longshore/sdk/guest/podmutation"
)

func init() {
	describe.Handle(func() contract.Manifest {
		return contract.Manifest{Name: "probe", Version: "1.0.0", Points: []contract.PointManifest{{
			Point: contract.PodMutation, Moments: []contract.Moment{contract.MomentAdmission}, Reads: []string{"/object/metadata/labels"},
		}}}
	})
	podmutation.Handle(func(r *podmutation.Request) (*guest.Answer, error) {
		if way := ways[r.Facts.Object.Metadata.Labels["probe"]]; way != nil {
			return nil, way(r.Facts.Object.Metadata.Labels)
		}
		return nil, nil
	})
}

var kept [][]byte

//go:noinline
func recurse(n int) int {
	if n < 0 { // never, within the fuel
		return 0
	}
	return recurse(n+1) + 1
}

// nowhere is a map that was not made.
var nowhere map[string]int

var ways = map[string]func(labels map[string]string) error{
	"panic": func(map[string]string) error { panic("the team label is missing") },
	"error": func(map[string]string) error { panic(errors.New("no such pool")) },
	"nil": func(map[string]string) error {
		var r *podmutation.Request
		return errors.New(r.Facts.Object.Metadata.Name)
	},
	"index":    func(labels map[string]string) error { return errors.New([]string{"a"}[len(labels)+2]) },
	"map":      func(map[string]string) error { nowhere["a"] = 1; return nil },
	"deadlock": func(map[string]string) error { var m sync.Mutex; m.Lock(); m.Lock(); return nil },
	"exit":     func(map[string]string) error { os.Exit(1); return nil },
	"exit0":    func(map[string]string) error { os.Exit(0); return nil },
	"reported": func(map[string]string) error { return errors.New("the label team is missing") },
	"loop": func(map[string]string) error {
		for {
			kept = kept[:0]
		}
	},
	"recurse": func(map[string]string) error { return errors.New(string(rune(recurse(0)))) },
	"memory": func(map[string]string) error {
		for {
			kept = append(kept, make([]byte, 1<<20))
		}
	},
}

// main is never called: the host calls the exports of a library.
func main() {}
