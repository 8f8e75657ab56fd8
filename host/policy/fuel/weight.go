package fuel

// Weights are about the nanoseconds that an instruction takes in the worst case on a server of
// 2026. A load from main memory takes a hundred times as long as one from the first cache. The
// weight of loads is lower than their worst case, because most loads of ordinary code hit a
// cache. A test of package engine measures a tick of each class; the engine also limits the
// CPU time of a call. Processors differ: arithmetic on subnormal numbers is slow on Intel's, and
// branches with a table are on AMD's.
const (
	// Parts is the number of parts of a tick. The fuel global counts parts. A tick is paid at a
	// function entry or loop iteration and covers cheap instructions.
	Parts = 12
	// partWeight is the weight that one part of a tick covers, tickWeight that of a tick.
	partWeight = 1536
	tickWeight = Parts * partWeight
	// threshold is the weight at which a charge is inserted on a path without branches.
	threshold = 2 * tickWeight
	// farWeight is the weight of accesses to memory: loads, stores, table items.
	farWeight = 3 * partWeight
	// referenceWeight is the weight of a reference to a function, which the engine creates.
	referenceWeight = 1600
	// localsPerUnit is the number of local variables with the weight of one; a compiler may move
	// them where paths join.
	localsPerUnit = 2
	// branchWeight is the weight of a branch that a CPU does not predict.
	branchWeight = 36
	// tableWeight is the weight of a branch with a table of targets.
	tableWeight = 120
	// floatWeight is the weight of arithmetic that is slow for subnormal numbers.
	floatWeight = 512
	// vectorWeight is the weight of a SIMD instruction. Some compile to a dozen instructions.
	vectorWeight = 36
	// simpleWeight is the weight of all other instructions.
	simpleWeight = 2
	// slowWeight is the weight of multiplications and of counting bits.
	slowWeight = 12
	// divisionWeight is the weight of divisions and remainders of integers.
	divisionWeight = 80
	// conversionWeight is the weight of rounding and of conversions between numbers.
	conversionWeight = 72
	// importWeight is the weight of a call of an imported function, without its execution.
	importWeight = 200
	// bulkWeight is the weight of a bulk instruction, without its length.
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
	case op == opLocalGet, op == opDrop: // no machine code
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

// weightOfVector returns the weight of an instruction with the prefix opVector.
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

// plainWeight returns the weight of an instruction without immediates.
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
		return simpleWeight
	}
}
