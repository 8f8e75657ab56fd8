package contract

// Manifest describes a module. It is the output of the export describe.
//
// Example:
//
//	{"name":"registry-rewrite","version":"1.0.0","contracts":["v1alpha1"],
//	 "points":[{"point":"PodMutation","moments":["Offload"],
//	   "reads":["/object/spec/containers[*]/name","/object/spec/containers[*]/image"],
//	   "writes":[{"path":"/spec/containers[*]/image","verbs":["set"]}]}]}
type Manifest struct {
	// Name of the module, a DNS label.
	Name string `json:"name"`
	// Version of the module, free text.
	Version string `json:"version"`
	// Contracts lists the contract versions that the module implements.
	Contracts []string `json:"contracts"`
	// Points lists the extension points that the module answers, each once.
	Points []PointManifest `json:"points"`
}

// PointManifest declares what a module reads and writes at one point. It is the
// complete list: the host passes nothing else and refuses anything else.
//
// Example:
//
//	{"point":"MetadataFilter","reads":["/notReflected"],"settingsReads":["/object/kind"],
//	 "writes":[{"path":"/metadata/labels","verbs":["remove"]}]}
type PointManifest struct {
	// Point that the module answers.
	Point Point `json:"point"`
	// Moments narrows PodMutation; empty means every moment.
	Moments []Moment `json:"moments,omitempty"`
	// Reads are JSON pointers into the facts object of the point, without indices:
	// "/object/spec/tolerations", "/object/spec/containers[*]/image". A path grants
	// the whole subtree below it. Absent fields are simply not passed. One key of a
	// map is a token as in RFC 6901, its slashes written "~1" and its tildes "~0":
	// "/local/metadata/annotations/liqo.io~1anti-affinity-preset". Ask for the keys
	// that you need, not for the map: what differs from pod to pod spoils the memo.
	Reads []string `json:"reads"`
	// SettingsReads are read in addition by bindings that have settings: a policy that
	// needs more of the facts only when it is configured to stays cheap, and blind, when
	// it is not.
	SettingsReads []string `json:"settingsReads,omitempty"`
	// Writes are the operations that the module may answer.
	Writes []WriteRule `json:"writes,omitempty"`
}

// WriteRule allows verbs at a path of facts.object and below it. Ensure and require
// reach fields below the path, but not the items of a list that the path does not
// select: a rule for "/spec/containers" does not allow ensure at
// "/spec/containers[*]/env". So two policies that only add need no order.
//
// Example:
//
//	{"path":"/metadata/labels","verbs":["merge","remove"],"keys":["team"]}
type WriteRule struct {
	// Path is a JSON pointer into the object, without indices, e.g. "/spec/tolerations".
	Path string `json:"path"`
	// Verbs that are allowed there, at least one.
	Verbs []Verb `json:"verbs"`
	// Keys narrows merge and remove to these map keys; empty allows every key.
	Keys []string `json:"keys,omitempty"`
}

// ReadsOf returns what a binding reads: Reads, and SettingsReads too when it has
// settings. The caller must not alter it.
func (p *PointManifest) ReadsOf(hasSettings bool) []string {
	if !hasSettings || len(p.SettingsReads) == 0 {
		return p.Reads
	}
	all := make([]string, 0, len(p.Reads)+len(p.SettingsReads))
	return append(append(all, p.Reads...), p.SettingsReads...)
}

// For returns what the manifest declares for a point, or nil.
func (m *Manifest) For(p Point) *PointManifest {
	for i := range m.Points {
		if m.Points[i].Point == p {
			return &m.Points[i]
		}
	}
	return nil
}

// At reports whether the point is declared for the moment. No declared moment
// means all of them.
func (p *PointManifest) At(m Moment) bool {
	if len(p.Moments) == 0 || m == "" {
		return true
	}
	for _, have := range p.Moments {
		if have == m {
			return true
		}
	}
	return false
}
