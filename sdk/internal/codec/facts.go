package codec

import (
	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/internal/json"
)

// PodMutationFacts reads the facts of PodMutation.
func PodMutationFacts(s *json.Scanner, f *contract.PodMutationFacts) {
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "object":
			pod(s, &f.Object)
		case "local":
			f.Local = optional(s, pods, pod)
		case "offloading":
			f.Offloading = optional(s, offloadings, offloading)
		case "namespace":
			f.Namespace = optional(s, metadatas, metadata)
		case "request":
			f.Request = optional(s, requests, admissionRequest)
		case "virtualNode":
			f.VirtualNode = optional(s, virtualNodes, virtualNode)
		case "runtimeClassName":
			f.RuntimeClassName = s.String()
		default:
			s.Skip()
		}
	}
}

// OffloadingPatchFacts reads the facts of OffloadingPatch.
func OffloadingPatchFacts(s *json.Scanner, f *contract.OffloadingPatchFacts) {
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "object":
			pod(s, &f.Object)
		case "local":
			pod(s, &f.Local)
		case "patch":
			f.Patch = optional(s, patches, patch)
		case "virtualNode":
			virtualNode(s, &f.VirtualNode)
		default:
			s.Skip()
		}
	}
}

// AntiAffinityPresetFacts reads the facts of AntiAffinityPreset.
func AntiAffinityPresetFacts(s *json.Scanner, f *contract.AntiAffinityPresetFacts) {
	antiAffinityPreset(s, &f.Object, pod, &f.Local)
}

// AntiAffinityPresetEntries reads the facts of AntiAffinityPreset with labels as a list.
func AntiAffinityPresetEntries(s *json.Scanner, f *contract.AntiAffinityPresetEntries) {
	antiAffinityPreset(s, &f.Object, entryObject, &f.Local)
}

func antiAffinityPreset[O any](s *json.Scanner, object *O, readObject func(*json.Scanner, *O), local *contract.Pod) {
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "object":
			readObject(s, object)
		case "local":
			pod(s, local)
		default:
			s.Skip()
		}
	}
}

// MetadataFilterFacts reads the facts of MetadataFilter.
func MetadataFilterFacts(s *json.Scanner, f *contract.MetadataFilterFacts) {
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "object":
			objectMetadata(s, &f.Object)
		case "notReflected":
			notReflected(s, &f.NotReflected)
		case "virtualNode":
			f.VirtualNode = optional(s, virtualNodes, virtualNode)
		default:
			s.Skip()
		}
	}
}

func offloading(s *json.Scanner, o *contract.NamespaceOffloading) {
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "podOffloadingStrategy":
			o.PodOffloadingStrategy = s.String()
		case "clusterSelector":
			nodeSelector(s, &o.ClusterSelector)
		default:
			s.Skip()
		}
	}
}

func admissionRequest(s *json.Scanner, r *contract.AdmissionRequest) {
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "user":
			r.User = s.String()
		case "groups":
			r.Groups = texts(s)
		case "dryRun":
			r.DryRun = s.Bool()
		default:
			s.Skip()
		}
	}
}

func virtualNode(s *json.Scanner, n *contract.VirtualNode) {
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "name":
			n.Name = s.String()
		case "providerClusterID":
			n.ProviderClusterID = s.String()
		case "consumerClusterID":
			n.ConsumerClusterID = s.String()
		case "labels":
			n.Labels = textMap(s)
		default:
			s.Skip()
		}
	}
}

func patch(s *json.Scanner, p *contract.Patch) {
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "nodeSelector":
			p.NodeSelector = textMap(s)
		case "tolerations":
			p.Tolerations = raws(s)
		case "affinity":
			p.Affinity = optional(s, patchAffinities, patchAffinity)
		case "runtimeClassName":
			p.RuntimeClassName = s.String()
		default:
			s.Skip()
		}
	}
}

func patchAffinity(s *json.Scanner, a *contract.PatchAffinity) {
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "nodeAffinity":
			a.NodeAffinity = optional(s, nodeAffinities, nodeAffinity)
		default:
			s.Skip()
		}
	}
}

func objectMetadata(s *json.Scanner, o *contract.ObjectMetadata) {
	typedObject(s, &o.APIVersion, &o.Kind, &o.Metadata, metadata)
}

func typedObject[M any](s *json.Scanner, apiVersion, kind *string, meta *M, readMeta func(*json.Scanner, *M)) {
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "apiVersion":
			*apiVersion = s.String()
		case "kind":
			*kind = s.String()
		case "metadata":
			readMeta(s, meta)
		default:
			s.Skip()
		}
	}
}

func notReflected(s *json.Scanner, n *contract.NotReflected) {
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "labels":
			n.Labels = texts(s)
		case "annotations":
			n.Annotations = texts(s)
		default:
			s.Skip()
		}
	}
}
