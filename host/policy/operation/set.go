package operation

import (
	"hash/maphash"
	"math"

	"github.com/longshore-dev/longshore/host/policy/document"
)

// set holds values that are compared by a relation of the caller. Equal values must have
// the same hash. Lists of one object may have a hundred thousand items, so values must not
// be compared pair by pair.
type set struct {
	hash    func(value any) uint64
	equal   func(a, b any) bool
	buckets map[uint64][]any
}

func newSet(values []any, hash func(any) uint64, equal func(a, b any) bool) *set {
	s := &set{hash: hash, equal: equal, buckets: make(map[uint64][]any, len(values))}
	for _, value := range values {
		s.add(value)
	}
	return s
}

func (s *set) contains(value any) bool { return s.find(s.hash(value), value) }

func (s *set) containsAll(values []any) bool {
	for _, value := range values {
		if !s.contains(value) {
			return false
		}
	}
	return true
}

func (s *set) find(hash uint64, value any) bool {
	for _, other := range s.buckets[hash] {
		if s.equal(value, other) {
			return true
		}
	}
	return false
}

// add adds a value to the set and reports whether the set did not contain it.
func (s *set) add(value any) bool {
	hash := s.hash(value)
	if s.find(hash, value) {
		return false
	}
	s.buckets[hash] = append(s.buckets[hash], value)
	return true
}

var hashSeed = maphash.MakeSeed()

// hashValue hashes a value of a document. Equal values have the same hash.
func hashValue(value any) uint64 {
	value, err := document.Open(value)
	if err != nil {
		return 0
	}
	switch v := value.(type) {
	case string:
		return maphash.String(hashSeed, v)
	case int64:
		return hashNumber(float64(v))
	case float64:
		return hashNumber(v)
	case bool:
		return maphash.Comparable(hashSeed, v)
	case []any:
		sum := uint64(len(v))
		for _, item := range v {
			sum = mix(sum, hashValue(item))
		}
		return sum
	case map[string]any:
		sum := uint64(0)
		for key, member := range v {
			if hash := hashValue(member); hash != 0 { // a member with a null value is like an absent one
				sum += mix(maphash.String(hashSeed, key), hash)
			}
		}
		return sum
	default:
		return 0
	}
}

func hashNumber(f float64) uint64 {
	if f == 0 {
		f = 0 // -0 equals 0 and has other bits
	}
	return mix(1, math.Float64bits(f))
}

// mix depends on the order of its arguments.
func mix(a, b uint64) uint64 { return maphash.Comparable(hashSeed, [2]uint64{a, b}) }
