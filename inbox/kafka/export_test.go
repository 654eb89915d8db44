package kafka

// Crash ends a source as SIGKILL would, as far as others can see: nothing is
// committed any more, and the group is not told. The caller cancels Run's
// context after it.
func (s *Source) Crash() { s.dialer.cut() }
