package policysource

// AwaitLoads returns when no module is being loaded.
func (s *Source) AwaitLoads() { s.loads.Wait() }

// StopLoads ends all loads, as the end of the component does.
func (s *Source) StopLoads() { s.loads.Stop() }
