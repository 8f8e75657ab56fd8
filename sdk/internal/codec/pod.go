package codec

import (
	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/internal/json"
)

func metadata(s *json.Scanner, m *contract.Metadata) {
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "name":
			m.Name = s.String()
		case "namespace":
			m.Namespace = s.String()
		case "labels":
			m.Labels = textMap(s)
		case "annotations":
			m.Annotations = textMap(s)
		default:
			s.Skip()
		}
	}
}

func pod(s *json.Scanner, p *contract.Pod) {
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "metadata":
			metadata(s, &p.Metadata)
		case "spec":
			podSpec(s, &p.Spec)
		default:
			s.Skip()
		}
	}
}

func podSpec(s *json.Scanner, p *contract.PodSpec) {
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "runtimeClassName":
			p.RuntimeClassName = s.String()
		case "nodeName":
			p.NodeName = s.String()
		case "nodeSelector":
			p.NodeSelector = textMap(s)
		case "tolerations":
			p.Tolerations = list(s, tolerationLists, toleration)
		case "affinity":
			p.Affinity = optional(s, affinities, affinity)
		case "containers":
			p.Containers = list(s, containerLists, container)
		case "initContainers":
			p.InitContainers = list(s, containerLists, container)
		case "hostNetwork":
			p.HostNetwork = s.Bool()
		case "hostPID":
			p.HostPID = s.Bool()
		case "hostIPC":
			p.HostIPC = s.Bool()
		case "volumes":
			p.Volumes = list(s, volumeLists, volume)
		default:
			s.Skip()
		}
	}
}

func container(s *json.Scanner, c *contract.Container) {
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "name":
			c.Name = s.String()
		case "image":
			c.Image = s.String()
		case "resources":
			c.Resources = s.Raw()
		case "securityContext":
			c.SecurityContext = optional(s, securityContexts, securityContext)
		default:
			s.Skip()
		}
	}
}

func securityContext(s *json.Scanner, c *contract.SecurityContext) {
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "privileged":
			c.Privileged = s.Bool()
		default:
			s.Skip()
		}
	}
}

func volume(s *json.Scanner, v *contract.Volume) {
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "name":
			v.Name = s.String()
		case "hostPath":
			v.HostPath = s.Raw()
		default:
			s.Skip()
		}
	}
}

func toleration(s *json.Scanner, t *contract.Toleration) {
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
			t.TolerationSeconds = optional(s, integers, integer)
		default:
			s.Skip()
		}
	}
}

func affinity(s *json.Scanner, a *contract.Affinity) {
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "nodeAffinity":
			a.NodeAffinity = optional(s, nodeAffinities, nodeAffinity)
		case "podAffinity":
			a.PodAffinity = s.Raw()
		case "podAntiAffinity":
			a.PodAntiAffinity = optional(s, podAntiAffinities, podAntiAffinity)
		default:
			s.Skip()
		}
	}
}

func nodeAffinity(s *json.Scanner, a *contract.NodeAffinity) {
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "requiredDuringSchedulingIgnoredDuringExecution":
			a.Required = optional(s, nodeSelectors, nodeSelector)
		case "preferredDuringSchedulingIgnoredDuringExecution":
			a.Preferred = raws(s)
		default:
			s.Skip()
		}
	}
}

func podAntiAffinity(s *json.Scanner, a *contract.PodAntiAffinity) {
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "requiredDuringSchedulingIgnoredDuringExecution":
			a.Required = raws(s)
		case "preferredDuringSchedulingIgnoredDuringExecution":
			a.Preferred = raws(s)
		default:
			s.Skip()
		}
	}
}

func nodeSelector(s *json.Scanner, n *contract.NodeSelector) {
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "nodeSelectorTerms":
			n.NodeSelectorTerms = list(s, termLists, nodeSelectorTerm)
		default:
			s.Skip()
		}
	}
}

func nodeSelectorTerm(s *json.Scanner, t *contract.NodeSelectorTerm) {
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "matchExpressions":
			t.MatchExpressions = list(s, requirementLists, nodeSelectorRequirement)
		case "matchFields":
			t.MatchFields = list(s, requirementLists, nodeSelectorRequirement)
		default:
			s.Skip()
		}
	}
}

func nodeSelectorRequirement(s *json.Scanner, r *contract.NodeSelectorRequirement) {
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "key":
			r.Key = s.String()
		case "operator":
			r.Operator = s.String()
		case "values":
			r.Values = texts(s)
		default:
			s.Skip()
		}
	}
}
