package engine

import (
	"fmt"
	"runtime"
)

// snapshot is the state to which instances are set back after each call. It is
// immutable, and shared by all instances of the module.
type snapshot struct {
	// size of the guest's memory; what lies behind the image is zero.
	size    uint64
	image   *image
	globals []uint64
	world   world
}

// start runs what a module runs before it can be called: its start function, and the
// initialization of its language's runtime.
func (i *instance) start() *failure {
	for _, export := range i.module.startup {
		if _, failed := i.run(export, i.module.limits.StartFuel, i.module.limits.StartTime); failed != nil {
			return failed
		}
	}
	return nil
}

// snapshot takes the instance's state. The instance is set back to it, too, so that it
// can serve calls.
func (i *instance) snapshot() (*snapshot, error) {
	s := &snapshot{world: i.world, size: i.size()}
	var err error
	if s.image, err = newImage(untilZero(i.guestMemory.reserved[:s.size]), s.size); err != nil {
		return nil, fmt.Errorf("keeping the state of an instance: %w", err)
	}
	if err := i.guestMemory.adopt(s.image, s.size); err != nil {
		return nil, err
	}
	for _, g := range i.mutable {
		s.globals = append(s.globals, g.Get())
	}
	i.forget()
	i.state = s
	return s, nil
}

// fork returns a new instance in the state of the snapshot.
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
	if err := i.guestMemory.adopt(s.image, s.size); err != nil {
		i.close()
		return nil, err
	}
	i.restoreGlobals(s)
	runtime.KeepAlive(s.image)
	return i, nil
}

// restore sets the instance back to the snapshot that it came from, which may no longer
// be the module's. It answers false when that is impossible: memory cannot shrink.
func (i *instance) restore() bool {
	s := i.state
	if i.size() != s.size {
		return false
	}
	i.guestMemory.restore(s.image, s.size)
	i.restoreGlobals(s)
	runtime.KeepAlive(s.image)
	i.forget()
	return true
}

// rest gives back what an instance that waits long need not hold: pages that its state
// has, too, and the kernel's memory, all of which is zero between calls.
func (i *instance) rest() {
	if s := i.state; s != nil {
		i.guestMemory.rest(s.image, s.size)
		runtime.KeepAlive(s.image)
	}
	_ = discard(i.kernelMemory.reserved) // it may cost memory, nothing else
}

func (i *instance) restoreGlobals(s *snapshot) {
	for n, g := range i.mutable {
		g.Set(s.globals[n])
	}
	i.world, i.state = s.world, s
}

// forget clears what the host keeps of a call.
func (i *instance) forget() {
	i.kernelMemory.clear(i.global.top.Get())
	i.global.top.Set(inputOffset)
	i.global.inputLength.Set(0)
	i.global.outputOffset.Set(0)
	i.global.outputLength.Set(0)
	i.global.failure.Set(0)
	i.global.fault.Set(faultNone)
	i.guestMemory.refused = false
	i.stderr, i.lines, i.droppedLines = i.stderr[:0], nil, 0
	i.variables, i.variableBytes, i.deniedRequest = nil, 0, ""
}
