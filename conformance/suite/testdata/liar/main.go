// Command liar is a policy module that does what the suite must find.
package main

import (
	"strconv"
	"time"

	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/guest"
	"github.com/longshore-dev/longshore/sdk/guest/describe"
	"github.com/longshore-dev/longshore/sdk/guest/metadatafilter"
	"github.com/longshore-dev/longshore/sdk/guest/offloadingpatch"
	"github.com/longshore-dev/longshore/sdk/guest/podmutation"
)

func init() {
	verbs := contract.Verbs()
	describe.Handle(func() contract.Manifest {
		return contract.Manifest{Name: "liar", Version: "1", Points: []contract.PointManifest{
			{Point: contract.PodMutation, Reads: []string{"/object/spec/runtimeClassName"}, Writes: []contract.WriteRule{{Path: "/spec/runtimeClassName", Verbs: verbs}}},
			{Point: contract.OffloadingPatch, Writes: []contract.WriteRule{{Path: "/spec/nodeSelector", Verbs: verbs, Keys: nil}}},
			{Point: contract.MetadataFilter, Writes: []contract.WriteRule{{Path: "/metadata/labels", Verbs: []contract.Verb{contract.VerbMerge}}}},
		}}
	})
	// It makes something else of what it made.
	podmutation.Handle(func(r *podmutation.Request) (*guest.Answer, error) {
		class := contract.String(r.Facts.Object.Spec.RuntimeClassName + "x")
		return &guest.Answer{Operations: []contract.Operation{contract.Set("/spec/runtimeClassName", class)}}, nil
	})
	// It writes what it does not declare.
	offloadingpatch.Handle(func(*offloadingpatch.Request) ([]contract.Operation, error) {
		return []contract.Operation{contract.Set("/spec/runtimeClassName", contract.String("x"))}, nil
	})
	// It looks at the clock, which stands still in Longshore only.
	metadatafilter.Handle(func(*metadatafilter.Request) ([]contract.Operation, error) {
		now := strconv.FormatInt(time.Now().UnixNano(), 10)
		return []contract.Operation{contract.Merge("/metadata/labels", contract.StringMap{"now": now})}, nil
	})
}

func main() {}
