package engine

import "fmt"

// snapshot is the state to which instances are reset after each call. It is immutable, and
// the instances of a module share it.
type snapshot struct {
	// size of the guest's memory, which has these blocks.
	size        uint64
	blocks      [][]byte
	globals     []uint64
	environment environment
}

// start runs the module's start function and the initialization of its language's runtime.
func (i *instance) start() *failure {
	for _, export := range i.module.startup {
		if _, failed := i.run(export, i.module.limits.StartFuel, i.module.limits.StartTime); failed != nil {
			return failed
		}
	}
	return nil
}

// snapshot returns the instance's state, to which the instance is reset from now on.
func (i *instance) snapshot() *snapshot {
	s := &snapshot{environment: i.environment, size: i.size(), blocks: i.guestMemory.blocks(i.size())}
	for _, g := range i.mutable {
		s.globals = append(s.globals, g.Get())
	}
	i.clearCall()
	i.state = s
	return s
}

// fork creates an instance in the state of the snapshot.
func (m *Module) fork(s *snapshot) (*instance, error) {
	i, err := m.newInstance()
	if err != nil {
		return nil, err
	}
	if missing := s.size - i.size(); missing > 0 {
		if _, ok := i.guest.Memory().Grow(uint32(missing / pageBytes)); !ok {
			i.close()
			return nil, fmt.Errorf("growing the memory of an instance to %d bytes failed", s.size)
		}
	}
	i.guestMemory.restore(s.blocks)
	i.restoreGlobals(s)
	return i, nil
}

// restore resets the instance to its snapshot, which may no longer be the module's. It
// returns false when the memory has grown, as memory cannot shrink.
func (i *instance) restore() bool {
	s := i.state
	if i.size() != s.size {
		return false
	}
	i.guestMemory.restore(s.blocks)
	i.restoreGlobals(s)
	i.clearCall()
	return true
}

func (i *instance) restoreGlobals(s *snapshot) {
	for n, g := range i.mutable {
		g.Set(s.globals[n])
	}
	i.environment, i.state = s.environment, s
}

// clearCall clears the state that the host keeps of a call.
func (i *instance) clearCall() {
	i.kernelMemory.clear(i.global.top.Get())
	i.global.top.Set(inputOffset)
	i.global.inputLength.Set(0)
	i.global.outputOffset.Set(0)
	i.global.outputLength.Set(0)
	i.global.failure.Set(0)
	i.global.fault.Set(faultNone)
	i.guestMemory.isRefused = false
	i.stderr, i.lines, i.droppedLines = i.stderr[:0], nil, 0
	i.variables, i.variableBytes, i.deniedRequest = nil, 0, ""
}
