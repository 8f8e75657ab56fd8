package codec

import (
	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/internal/json"
)

// ShadowPodAdmissionFacts reads the facts of ShadowPodAdmission.
func ShadowPodAdmissionFacts(s *json.Scanner, f *contract.ShadowPodAdmissionFacts) {
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "object":
			pod(s, &f.Object)
		case "tenant":
			tenant(s, &f.Tenant)
		case "namespace":
			metadata(s, &f.Namespace)
		case "request":
			admissionRequest(s, &f.Request)
		case "quota":
			f.Quota = optional(s, quotas, quota)
		default:
			s.Skip()
		}
	}
}

func tenant(s *json.Scanner, t *contract.Tenant) {
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "clusterID":
			t.ClusterID = s.String()
		default:
			s.Skip()
		}
	}
}

func quota(s *json.Scanner, q *contract.Quota) {
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "resources":
			q.Resources = textMap(s)
		case "used":
			q.Used = textMap(s)
		case "limitsEnforcement":
			q.LimitsEnforcement = s.String()
		default:
			s.Skip()
		}
	}
}

// ResourceSliceAdmissionFacts reads the facts of ResourceSliceAdmission.
func ResourceSliceAdmissionFacts(s *json.Scanner, f *contract.ResourceSliceAdmissionFacts) {
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "object":
			resourceSlice(s, &f.Object)
		case "tenant":
			tenant(s, &f.Tenant)
		case "namespace":
			metadata(s, &f.Namespace)
		case "defaults":
			f.Defaults = textMap(s)
		default:
			s.Skip()
		}
	}
}

func resourceSlice(s *json.Scanner, r *contract.ResourceSlice) {
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "metadata":
			metadata(s, &r.Metadata)
		case "spec":
			resourceSliceSpec(s, &r.Spec)
		case "status":
			resourceSliceStatus(s, &r.Status)
		default:
			s.Skip()
		}
	}
}

func resourceSliceSpec(s *json.Scanner, r *contract.ResourceSliceSpec) {
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "class":
			r.Class = s.String()
		case "resources":
			r.Resources = textMap(s)
		default:
			s.Skip()
		}
	}
}

func resourceSliceStatus(s *json.Scanner, r *contract.ResourceSliceStatus) {
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "resources":
			r.Resources = textMap(s)
		default:
			s.Skip()
		}
	}
}
