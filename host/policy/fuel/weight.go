package fuel

// Weights are about the nanoseconds that an instruction takes at worst on a server of
// 2026, not at best: a load from memory that no cache holds takes a hundred times as long
// as one from the nearest cache. The heaviest weigh less than that, so that ordinary code,
// whose loads are mostly near, is not charged for what it does not do. Package engine has a
// test that measures a tick of each class, and a bound of time beside the fuel.
const (
	// Parts is the number of parts of a tick. The fuel global counts parts. A tick is paid
	// where a function or an iteration of a loop begins, and covers what is light.
	Parts = 12
	// partWeight is the weight that a part of a tick pays for, tickWeight that of a tick.
	partWeight = 1536
	tickWeight = Parts * partWeight
	// threshold is the weight that may be due before it must be charged, on straight paths.
	threshold = 2 * tickWeight
	// farWeight is that of what may wait for memory: loads, stores, entries of tables.
	farWeight = 3 * partWeight
	// referenceWeight is that of a reference to a function, which the engine makes.
	referenceWeight = 1280
	// localsPerUnit is how many local variables, which may be moved where paths meet, weigh one.
	localsPerUnit = 2
	// branchWeight is that of a branch that a processor cannot predict.
	branchWeight = 36
	// tableWeight is that of a branch to one of many places.
	tableWeight = 80
	// floatWeight is that of arithmetic that processors do slowly for tiny numbers.
	floatWeight = 512
	// vectorWeight is that of a SIMD instruction, some of which are a dozen instructions of
	// the processor.
	vectorWeight = 18
	// slowWeight is that of multiplications, of counting bits and the like.
	slowWeight = 2
	// divisionWeight is that of divisions and remainders of integers.
	divisionWeight = 36
	// conversionWeight is that of roundings and of conversions between numbers.
	conversionWeight = 6
	// importWeight is that of a call of an imported function, without what it does.
	importWeight = 32
	// bulkWeight is that of a bulk instruction, without its length.
	bulkWeight = 96
)

// weigh sets the weight of a decoded instruction.
func (i *instruction) weigh() {
	switch op := i.op; {
	case op >= 0x28 && op <= 0x3e, op == opTableGet, op == opTableSet:
		i.weight = farWeight
	case op == opRefFunc:
		i.weight = referenceWeight
	case op == opCallIndirect:
		i.weight = farWeight + importWeight
	case op == opIf, op == opBrIf:
		i.weight = branchWeight
	case op == opBrTable:
		i.weight = tableWeight
	case op == opMisc:
		i.weight = miscWeight(i.sub)
	case op == opVector:
		i.weight = weightOfVector(i.sub)
	case op == opLocalGet, op == opDrop: // nothing of it is left in compiled code
		i.weight = 0
	default:
		i.weight = plainWeight(op)
	}
}

func miscWeight(sub uint32) int {
	if sub < miscMemoryInit { // saturating truncations
		return conversionWeight
	}
	return bulkWeight
}

// weightOfVector is for the instructions behind opVector.
func weightOfVector(sub uint32) int {
	switch {
	case sub <= 11, sub >= 84 && sub <= 93: // loads and stores
		return farWeight
	case sub == 94, sub == 95, sub >= 0xe0: // arithmetic on floating-point numbers, conversions
		return floatWeight
	default:
		return vectorWeight
	}
}

// plainWeight is for instructions without immediates.
func plainWeight(op byte) int {
	switch {
	case op >= 0x91 && op <= 0x98, op >= 0x9f && op <= 0xa6: // sqrt to copysign
		return floatWeight
	case op == 0xb6, op == 0xbb: // demote, promote
		return floatWeight
	case op >= 0x6d && op <= 0x70, op >= 0x7f && op <= 0x82: // divisions, remainders
		return divisionWeight
	case op >= 0x8b && op <= 0x90, op >= 0x99 && op <= 0x9e, op >= 0xa8 && op <= 0xbf: // roundings, conversions
		return conversionWeight
	case op >= 0x67 && op <= 0x69, op == 0x6c, op >= 0x79 && op <= 0x7b, op == 0x7e:
		return slowWeight
	default:
		return 1
	}
}
