package codec

import (
	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/internal/arena"
	"github.com/longshore-dev/longshore/sdk/internal/json"
)

// A request is decoded into these. Each holds several requests of the usual size, because a
// warm-up request may come before the first call.
const (
	few  = 16
	many = 256
	// labels is how many labels or annotations of an object are usual.
	labels = 8
)

var (
	scanners = ready[json.Scanner](few)

	pods              = ready[contract.Pod](few)
	offloadings       = ready[contract.NamespaceOffloading](few)
	metadatas         = ready[contract.Metadata](few)
	requests          = ready[contract.AdmissionRequest](few)
	virtualNodes      = ready[contract.VirtualNode](few)
	quotas            = ready[contract.Quota](few)
	securityContexts  = ready[contract.SecurityContext](few)
	patches           = ready[contract.Patch](few)
	patchAffinities   = ready[contract.PatchAffinity](few)
	affinities        = ready[contract.Affinity](few)
	nodeAffinities    = ready[contract.NodeAffinity](few)
	podAntiAffinities = ready[contract.PodAntiAffinity](few)
	nodeSelectors     = ready[contract.NodeSelector](few)

	tolerationLists  = arena.New[contract.Toleration](many)
	containerLists   = arena.New[contract.Container](many)
	volumeLists      = arena.New[contract.Volume](many)
	termLists        = arena.New[contract.NodeSelectorTerm](many)
	requirementLists = arena.New[contract.NodeSelectorRequirement](many)
	rawLists         = arena.New[contract.RawMessage](many)
	textLists        = arena.New[string](many)
	integers         = ready[int64](few)

	textMaps = arena.NewWith(4*few, func() map[string]string { return make(map[string]string, labels) })
)

// ready returns an arena of pointers to zero values. The compiler shares the code for pointers
// among all types, and not the code for values.
func ready[T any](block int) *arena.Arena[*T] {
	return arena.NewWith(block, func() *T { return new(T) })
}

// list reads a list, or nil for null.
func list[T any](s *json.Scanner, values *arena.Arena[T], item func(*json.Scanner, *T)) []T {
	if s.Null() {
		return nil
	}
	items := values.Open()
	for more := s.FirstItem(); more; more = s.NextItem() {
		n := len(items)
		if n == cap(items) {
			items = append(items, make([]T, n)...)
		}
		items = items[:n+1]
		item(s, &items[n])
	}
	return values.Close(items)
}

// texts reads a list of strings, or nil for null.
func texts(s *json.Scanner) []string {
	if s.Null() {
		return nil
	}
	items := textLists.Open()
	for more := s.FirstItem(); more; more = s.NextItem() {
		items = append(items, s.String())
	}
	return textLists.Close(items)
}

// raws reads a list of values as they are, or nil for null.
func raws(s *json.Scanner) []contract.RawMessage {
	if s.Null() {
		return nil
	}
	items := rawLists.Open()
	for more := s.FirstItem(); more; more = s.NextItem() {
		items = append(items, s.Raw())
	}
	return rawLists.Close(items)
}

// textMap reads a map of strings, or nil for null.
func textMap(s *json.Scanner) map[string]string {
	if s.Null() {
		return nil
	}
	m := *textMaps.One()
	for key, more := s.FirstKey(); more; key, more = s.NextKey() {
		m[json.Text(key)] = s.String()
	}
	return m
}

// optional reads a value, or nil for null.
func optional[T any](s *json.Scanner, values *arena.Arena[*T], read func(*json.Scanner, *T)) *T {
	if s.Null() {
		return nil
	}
	v := *values.One()
	read(s, v)
	return v
}

func integer(s *json.Scanner, n *int64) { *n = s.Int64() }
