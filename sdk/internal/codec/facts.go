package codec

import (
	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/internal/json"
)

// PodMutationFacts reads the facts of PodMutation.
func PodMutationFacts(s *json.Scanner) contract.PodMutationFacts {
	var f contract.PodMutationFacts
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "object":
			f.Object = pod(s)
		case "local":
			f.Local = optional(s, pod)
		case "offloading":
			f.Offloading = optional(s, offloading)
		case "namespace":
			f.Namespace = optional(s, metadata)
		case "request":
			f.Request = optional(s, admissionRequest)
		case "virtualNode":
			f.VirtualNode = optional(s, virtualNode)
		case "runtimeClassName":
			f.RuntimeClassName = s.String()
		default:
			s.Skip()
		}
	}
	return f
}

// OffloadingPatchFacts reads the facts of OffloadingPatch.
func OffloadingPatchFacts(s *json.Scanner) contract.OffloadingPatchFacts {
	var f contract.OffloadingPatchFacts
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "object":
			f.Object = pod(s)
		case "local":
			f.Local = pod(s)
		case "patch":
			f.Patch = optional(s, patch)
		case "virtualNode":
			f.VirtualNode = virtualNode(s)
		default:
			s.Skip()
		}
	}
	return f
}

// AntiAffinityPresetFacts reads the facts of AntiAffinityPreset.
func AntiAffinityPresetFacts(s *json.Scanner) contract.AntiAffinityPresetFacts {
	var f contract.AntiAffinityPresetFacts
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "object":
			f.Object = pod(s)
		case "local":
			f.Local = pod(s)
		default:
			s.Skip()
		}
	}
	return f
}

// MetadataFilterFacts reads the facts of MetadataFilter.
func MetadataFilterFacts(s *json.Scanner) contract.MetadataFilterFacts {
	var f contract.MetadataFilterFacts
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "object":
			f.Object = objectMetadata(s)
		case "notReflected":
			f.NotReflected = notReflected(s)
		case "virtualNode":
			f.VirtualNode = optional(s, virtualNode)
		default:
			s.Skip()
		}
	}
	return f
}

func offloading(s *json.Scanner) contract.NamespaceOffloading {
	var o contract.NamespaceOffloading
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "podOffloadingStrategy":
			o.PodOffloadingStrategy = s.String()
		case "clusterSelector":
			o.ClusterSelector = nodeSelector(s)
		default:
			s.Skip()
		}
	}
	return o
}

func admissionRequest(s *json.Scanner) contract.AdmissionRequest {
	var r contract.AdmissionRequest
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "user":
			r.User = s.String()
		case "groups":
			r.Groups = list(s, stringItem)
		case "dryRun":
			r.DryRun = s.Bool()
		default:
			s.Skip()
		}
	}
	return r
}

func virtualNode(s *json.Scanner) contract.VirtualNode {
	var n contract.VirtualNode
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "name":
			n.Name = s.String()
		case "providerClusterID":
			n.ProviderClusterID = s.String()
		case "consumerClusterID":
			n.ConsumerClusterID = s.String()
		case "labels":
			n.Labels = stringMap(s)
		default:
			s.Skip()
		}
	}
	return n
}

func patch(s *json.Scanner) contract.Patch {
	var p contract.Patch
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "nodeSelector":
			p.NodeSelector = stringMap(s)
		case "tolerations":
			p.Tolerations = list(s, rawItem)
		case "affinity":
			p.Affinity = optional(s, patchAffinity)
		case "runtimeClassName":
			p.RuntimeClassName = s.String()
		default:
			s.Skip()
		}
	}
	return p
}

func patchAffinity(s *json.Scanner) contract.PatchAffinity {
	var a contract.PatchAffinity
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "nodeAffinity":
			a.NodeAffinity = optional(s, nodeAffinity)
		default:
			s.Skip()
		}
	}
	return a
}

func objectMetadata(s *json.Scanner) contract.ObjectMetadata {
	var o contract.ObjectMetadata
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "apiVersion":
			o.APIVersion = s.String()
		case "kind":
			o.Kind = s.String()
		case "metadata":
			o.Metadata = metadata(s)
		default:
			s.Skip()
		}
	}
	return o
}

func notReflected(s *json.Scanner) contract.NotReflected {
	var n contract.NotReflected
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "labels":
			n.Labels = list(s, stringItem)
		case "annotations":
			n.Annotations = list(s, stringItem)
		default:
			s.Skip()
		}
	}
	return n
}
