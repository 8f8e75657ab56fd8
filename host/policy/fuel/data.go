package fuel

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// joinGap is how many zero bytes between two data segments are written out to make one
// of them. An engine keeps about a hundred bytes for each segment. Of Go modules nearly
// all gaps are of 17 to 24 bytes: a longer bound joins little more.
const joinGap = 24

// segment is data that is copied to a fixed place of the memory.
type segment struct {
	offset uint32
	data   []byte
}

func (s *segment) end() uint64 { return uint64(s.offset) + uint64(len(s.data)) }

// joined returns the data section with neighboring segments joined, or nil when that
// changes nothing or could be noticed. Go's linker cuts its data at every few zero bytes,
// into tens of thousands of segments, which cost an engine more than the data itself.
//
// A memory of the module's own begins with zeros, so zeros may be written where no segment
// writes: all segments must be active, have constant offsets and not overlap; then their
// order does not matter either. And code must not name segments by number, which it can
// only with a data count section.
func (m *Module) joined() []byte {
	found := m.find(sectionData)
	if found == nil || m.Memory == nil || m.importedMemories > 0 || m.find(sectionDataCount) != nil {
		return nil
	}
	segments := disjoint(&reader{data: found.data})
	joined := join(segments)
	if len(joined) == len(segments) {
		return nil
	}
	out := binary.AppendUvarint(make([]byte, 0, len(found.data)), uint64(len(joined)))
	for i := range joined {
		out = append(out, 0, opI32Const)
		out = appendSigned(out, int64(joined[i].offset))
		out = append(out, opEnd)
		out = binary.AppendUvarint(out, uint64(len(joined[i].data)))
		out = append(out, joined[i].data...)
	}
	return out
}

// disjoint returns active segments with constant offsets in the order of these; it returns
// none when there are others, or when two overlap. The section has been checked before.
func disjoint(r *reader) []segment {
	segments := make([]segment, r.count(2, maxFunctions))
	for i := range segments {
		if r.u32() != 0 || r.byte() != opI32Const {
			return nil
		}
		offset := r.s64(5)
		// An offset of more than 2 GiB is encoded as a negative number; no memory of ours
		// is that large.
		if r.byte() != opEnd || offset < 0 {
			return nil
		}
		segments[i] = segment{uint32(offset), r.take(r.u32())}
		if r.err != nil {
			return nil
		}
	}
	slices.SortStableFunc(segments, func(a, b segment) int { return cmp.Compare(a.offset, b.offset) })
	for i := range len(segments) - 1 {
		if segments[i].end() > uint64(segments[i+1].offset) {
			return nil
		}
	}
	return segments
}

func join(segments []segment) []segment {
	var joined []segment
	for _, s := range segments {
		if len(joined) > 0 {
			last := &joined[len(joined)-1]
			if gap := uint64(s.offset) - last.end(); gap <= joinGap {
				last.data = append(append(last.data, make([]byte, gap)...), s.data...)
				continue
			}
		}
		// What is appended goes into a copy: the data belongs to the module.
		joined = append(joined, segment{s.offset, s.data[:len(s.data):len(s.data)]})
	}
	return joined
}
