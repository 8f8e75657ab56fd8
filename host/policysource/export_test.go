package policysource

// AwaitLoads returns when no module is being loaded.
func (s *Source) AwaitLoads() { s.modules.Wait() }

// StopLoads stops all loads, as the component does when it stops.
func (s *Source) StopLoads() { s.modules.Stop() }
