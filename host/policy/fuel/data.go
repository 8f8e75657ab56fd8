package fuel

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// joinGap is the largest number of zero bytes between two data segments that are joined. An
// engine needs about a hundred bytes for each segment. Nearly all gaps of Go modules have 17
// to 24 bytes.
const joinGap = 24

// segment is data that is copied to a fixed place of the memory.
type segment struct {
	offset uint32
	data   []byte
}

func (s *segment) end() uint64 { return uint64(s.offset) + uint64(len(s.data)) }

// joined returns the data section with adjacent segments joined, or nil if no segment can be
// joined without an effect on the module. Go's linker splits its data at every few zero bytes
// into tens of thousands of segments, which cost an engine more memory than the data.
//
// The memory of a module is zero at the start, so zeros may be written between segments. All
// segments must be active, have constant offsets and not overlap, so that their order has no
// effect. Code must not refer to segments by index, which needs a data count section.
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

// disjoint returns the segments by offset if all are active, have constant offsets and do not
// overlap, else none. The section has been validated.
func disjoint(r *reader) []segment {
	segments := make([]segment, r.count(2, maxFunctions))
	for i := range segments {
		if r.u32() != 0 || r.byte() != opI32Const {
			return nil
		}
		offset := r.s64(5)
		// An offset of more than 2 GiB is encoded as a negative number. Memories are smaller.
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
		// Append to a copy: the data belongs to the module.
		joined = append(joined, segment{s.offset, s.data[:len(s.data):len(s.data)]})
	}
	return joined
}
