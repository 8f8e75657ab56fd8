package shadowpod

import (
	"encoding/json"
	"fmt"
)

const (
	// maxSize bounds the JSON of a ShadowPod without its managed fields: the controllers of the provider keep all
	// ShadowPods in memory, and an API server takes 1.5 MB. Pods of users stay below it: Kubernetes bounds the
	// annotations to 256 KiB, and a spec with thousands of environment variables has 200 KiB.
	maxSize = 512 << 10
	// maxManagedFields bounds the managed fields, which a client may write as well: an API server keeps them in
	// twenty times their size. Those of thousands of environment variables have 150 KiB.
	maxManagedFields = 256 << 10
	// maxPodTerms bounds what the scheduler compares with the pods of all consumers, and again whenever anything
	// changes while the pod fits nowhere. Consumers send no affinity; policies add a term or two.
	maxPodTerms = 16
	// maxSchedulingValues bounds what the scheduler compares with each Node.
	maxSchedulingValues = 1000
)

// bounded is what has bounds in a ShadowPod.
type bounded struct {
	Metadata struct {
		ManagedFields json.RawMessage `json:"managedFields"`
	} `json:"metadata"`
	Spec struct {
		Pod struct {
			Affinity struct {
				NodeAffinity    any      `json:"nodeAffinity"`
				PodAffinity     podTerms `json:"podAffinity"`
				PodAntiAffinity podTerms `json:"podAntiAffinity"`
			} `json:"affinity"`
			NodeSelector              any   `json:"nodeSelector"`
			Tolerations               any   `json:"tolerations"`
			TopologySpreadConstraints []any `json:"topologySpreadConstraints"`
		} `json:"pod"`
	} `json:"spec"`
}

type podTerms struct {
	Required  []any `json:"requiredDuringSchedulingIgnoredDuringExecution"`
	Preferred []any `json:"preferredDuringSchedulingIgnoredDuringExecution"`
}

func (t *podTerms) all() []any {
	return append(t.Required[:len(t.Required):len(t.Required)], t.Preferred...)
}

// amount is what one bound is about.
type amount struct {
	what  string
	limit int
	of    func(raw []byte, object *bounded) int
}

var amounts = []amount{
	{"bytes of spec, labels and annotations", maxSize, func(raw []byte, o *bounded) int { return len(raw) - len(o.Metadata.ManagedFields) }},
	{"bytes of metadata.managedFields", maxManagedFields, func(_ []byte, o *bounded) int { return len(o.Metadata.ManagedFields) }},
	{"terms of podAffinity, podAntiAffinity and topologySpreadConstraints", maxPodTerms, func(_ []byte, o *bounded) int {
		pod := &o.Spec.Pod
		return len(pod.Affinity.PodAffinity.all()) + len(pod.Affinity.PodAntiAffinity.all()) + len(pod.TopologySpreadConstraints)
	}},
	{"values of affinity, nodeSelector, tolerations and topologySpreadConstraints", maxSchedulingValues, func(_ []byte, o *bounded) int {
		pod := &o.Spec.Pod
		return values([]any{pod.Affinity.NodeAffinity, pod.Affinity.PodAffinity.all(), pod.Affinity.PodAntiAffinity.all(), pod.NodeSelector, pod.Tolerations, pod.TopologySpreadConstraints})
	}},
}

// tooLarge returns which bound a ShadowPod exceeds, or "". An update that makes nothing larger is admitted: the
// ShadowPod may have been stored without the bound.
func tooLarge(raw, old []byte) string {
	var object, before bounded
	if err := json.Unmarshal(raw, &object); err != nil {
		return fmt.Sprintf("decoding the ShadowPod: %v", err)
	}
	if len(old) > 0 {
		_ = json.Unmarshal(old, &before) // A ShadowPod that cannot be decoded has nothing.
	}
	for _, a := range amounts {
		if n := a.of(raw, &object); n > a.limit && n > a.of(old, &before) {
			return fmt.Sprintf("the ShadowPod has %d %s: the provider accepts %d", n, a.what, a.limit)
		}
	}
	return ""
}

// values returns how many values JSON has, objects and lists included.
func values(value any) int {
	n := 1
	switch value := value.(type) {
	case map[string]any:
		for _, v := range value {
			n += values(v)
		}
	case []any:
		for _, v := range value {
			n += values(v)
		}
	}
	return n
}
