package codec

import (
	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/internal/json"
)

func rawItem(s *json.Scanner) contract.RawMessage { return s.Raw() }

func metadata(s *json.Scanner) contract.Metadata {
	var m contract.Metadata
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "name":
			m.Name = s.String()
		case "namespace":
			m.Namespace = s.String()
		case "labels":
			m.Labels = stringMap(s)
		case "annotations":
			m.Annotations = stringMap(s)
		default:
			s.Skip()
		}
	}
	return m
}

func pod(s *json.Scanner) contract.Pod {
	var p contract.Pod
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "metadata":
			p.Metadata = metadata(s)
		case "spec":
			p.Spec = podSpec(s)
		default:
			s.Skip()
		}
	}
	return p
}

func podSpec(s *json.Scanner) contract.PodSpec {
	var p contract.PodSpec
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "runtimeClassName":
			p.RuntimeClassName = s.String()
		case "nodeName":
			p.NodeName = s.String()
		case "nodeSelector":
			p.NodeSelector = stringMap(s)
		case "tolerations":
			p.Tolerations = list(s, toleration)
		case "affinity":
			p.Affinity = optional(s, affinity)
		case "containers":
			p.Containers = list(s, container)
		case "initContainers":
			p.InitContainers = list(s, container)
		default:
			s.Skip()
		}
	}
	return p
}

func container(s *json.Scanner) contract.Container {
	var c contract.Container
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "name":
			c.Name = s.String()
		case "image":
			c.Image = s.String()
		case "resources":
			c.Resources = s.Raw()
		default:
			s.Skip()
		}
	}
	return c
}

func toleration(s *json.Scanner) contract.Toleration {
	var t contract.Toleration
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "key":
			t.Key = s.String()
		case "operator":
			t.Operator = s.String()
		case "value":
			t.Value = s.String()
		case "effect":
			t.Effect = s.String()
		case "tolerationSeconds":
			t.TolerationSeconds = optional(s, (*json.Scanner).Int64)
		default:
			s.Skip()
		}
	}
	return t
}

func affinity(s *json.Scanner) contract.Affinity {
	var a contract.Affinity
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "nodeAffinity":
			a.NodeAffinity = optional(s, nodeAffinity)
		case "podAffinity":
			a.PodAffinity = s.Raw()
		case "podAntiAffinity":
			a.PodAntiAffinity = optional(s, podAntiAffinity)
		default:
			s.Skip()
		}
	}
	return a
}

func nodeAffinity(s *json.Scanner) contract.NodeAffinity {
	var a contract.NodeAffinity
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "requiredDuringSchedulingIgnoredDuringExecution":
			a.Required = optional(s, nodeSelector)
		case "preferredDuringSchedulingIgnoredDuringExecution":
			a.Preferred = list(s, rawItem)
		default:
			s.Skip()
		}
	}
	return a
}

func podAntiAffinity(s *json.Scanner) contract.PodAntiAffinity {
	var a contract.PodAntiAffinity
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "requiredDuringSchedulingIgnoredDuringExecution":
			a.Required = list(s, rawItem)
		case "preferredDuringSchedulingIgnoredDuringExecution":
			a.Preferred = list(s, rawItem)
		default:
			s.Skip()
		}
	}
	return a
}

func nodeSelector(s *json.Scanner) contract.NodeSelector {
	var n contract.NodeSelector
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "nodeSelectorTerms":
			n.NodeSelectorTerms = list(s, nodeSelectorTerm)
		default:
			s.Skip()
		}
	}
	return n
}

func nodeSelectorTerm(s *json.Scanner) contract.NodeSelectorTerm {
	var t contract.NodeSelectorTerm
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "matchExpressions":
			t.MatchExpressions = list(s, nodeSelectorRequirement)
		case "matchFields":
			t.MatchFields = list(s, nodeSelectorRequirement)
		default:
			s.Skip()
		}
	}
	return t
}

func nodeSelectorRequirement(s *json.Scanner) contract.NodeSelectorRequirement {
	var r contract.NodeSelectorRequirement
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "key":
			r.Key = s.String()
		case "operator":
			r.Operator = s.String()
		case "values":
			r.Values = list(s, stringItem)
		default:
			s.Skip()
		}
	}
	return r
}
