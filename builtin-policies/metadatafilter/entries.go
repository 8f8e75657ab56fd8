package metadatafilter

import (
	"slices"
	"strings"

	"github.com/longshore-dev/longshore/sdk/contract"
)

// entry is a label or annotation on its way through the rules.
type entry struct {
	// was is the key that the object has, key the one that it will have.
	was, key, value string
	// next is the key that the rule at hand gives it, empty for none.
	next string
	gone bool
}

// entries are those of an object, sorted by the keys that it has. Lists and searches
// take the place of maps, which in a guest cost several times as much.
type entries []entry

// newEntries leaves out the listed keys, which are sorted.
func newEntries(have contract.Entries, listed []string) entries {
	all := make(entries, 0, len(have))
	for i := range have {
		key := have[i].Key
		if _, drop := slices.BinarySearch(listed, key); !drop {
			all = append(all, entry{was: key, key: key, value: have[i].Value})
		}
	}
	return all
}

// keys returns the sorted keys of the entries that stay and have no next key.
func (all entries) keys() []string {
	keys := make([]string, 0, len(all))
	for i := range all {
		if !all[i].gone && all[i].next == "" {
			keys = append(keys, all[i].key)
		}
	}
	slices.Sort(keys)
	return keys
}

// move gives the entries their next keys. One whose next key is taken, by an entry that
// stays or by one before it, is dropped.
func (all entries) move() {
	taken := all.keys()
	var moved []int
	for i := range all {
		if !all[i].gone && all[i].next != "" {
			moved = append(moved, i)
		}
	}
	slices.SortStableFunc(moved, func(i, j int) int { return strings.Compare(all[i].next, all[j].next) })
	last := ""
	for _, i := range moved {
		e := &all[i]
		if _, found := slices.BinarySearch(taken, e.next); found || e.next == last {
			e.gone = true
		} else {
			e.key, last = e.next, e.next
		}
		e.next = ""
	}
}

// changes returns the keys that are gone, those of the list included, and the entries
// that are new.
func (all entries) changes(listed []string) ([]string, contract.Entries) {
	kept := all.keys()
	dropped := listed
	var renamed contract.Entries
	for i := range all {
		e := &all[i]
		if !e.gone && e.key == e.was {
			continue
		}
		if !e.gone {
			renamed = append(renamed, contract.Entry{Key: e.key, Value: e.value})
		}
		dropped = append(dropped, e.was)
	}
	slices.Sort(dropped)
	return slices.DeleteFunc(dropped, func(key string) bool {
		_, taken := slices.BinarySearch(kept, key)
		return taken
	}), renamed.Sorted()
}
