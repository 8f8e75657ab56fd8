// Command resource is the policy "site" in Go, written with the SDK: it answers the
// extension point ResourceMutation. What is labeled as of use at home only stays there,
// ConfigMaps say which cluster they are read in, Certificates are issued by the provider's issuer,
// and everything else says where it comes from.
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -ldflags="-s -w" -o policy.wasm .
package main

import (
	"errors"

	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/guest/describe"
	"github.com/longshore-dev/longshore/sdk/guest/resourcemutation"
)

const (
	// site is the label, on the local object, that says where it is of use.
	site = "example.com/site"
	// origin is the annotation that says where an object comes from.
	origin = "example.com/origin"
)

func init() {
	describe.Handle(func() contract.Manifest {
		return contract.Manifest{Name: "site", Version: "1.0.0", Points: []contract.PointManifest{{
			Point: contract.ResourceMutation,
			// Neither names nor data: so one answer serves all objects that are labeled alike.
			Reads: []string{
				"/object/kind", "/local/metadata/labels/example.com~1site",
				"/virtualNode/consumerClusterID", "/virtualNode/providerClusterID",
			},
			Writes: []contract.WriteRule{
				{Path: "/data", Verbs: []contract.Verb{contract.VerbMerge}, Keys: []string{"cluster"}},
				{Path: "/spec/issuerRef", Verbs: []contract.Verb{contract.VerbMerge}, Keys: []string{"name"}},
				{Path: "/metadata/annotations", Verbs: []contract.Verb{contract.VerbMerge}, Keys: []string{origin}},
			},
		}}}
	})
	resourcemutation.Handle(decide)
}

func decide(r *resourcemutation.Request) (*resourcemutation.Answer, error) {
	switch where := r.Facts.Local.Metadata.Labels[site]; where {
	case "", "any":
	case "home":
		return &resourcemutation.Answer{Skip: &contract.Skip{
			Reason: "HomeOnly", Message: "it is labeled as of use in cluster " + r.Facts.VirtualNode.ConsumerClusterID + " only",
		}}, nil
	default:
		return nil, errors.New("label " + site + " is " + where + ", want home or any")
	}
	switch r.Facts.Object.Kind {
	case "ConfigMap":
		cluster := contract.StringMap{"cluster": r.Facts.VirtualNode.ProviderClusterID}
		return &resourcemutation.Answer{Operations: []contract.Operation{contract.Merge("/data", cluster)}}, nil
	case "Certificate":
		issuer := contract.StringMap{"name": "issuer-" + r.Facts.VirtualNode.ProviderClusterID}
		return &resourcemutation.Answer{Operations: []contract.Operation{contract.Merge("/spec/issuerRef", issuer)}}, nil
	case "Secret":
		return nil, nil
	default:
		from := contract.StringMap{origin: r.Facts.VirtualNode.ConsumerClusterID}
		return &resourcemutation.Answer{Operations: []contract.Operation{contract.Merge("/metadata/annotations", from)}}, nil
	}
}

// main is never called: the host calls the exports of a library.
func main() {}
