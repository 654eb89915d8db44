package kafka

// Metered reports whether what is fetched of a partition is counted as coming from
// a broker.
func Metered(s *Source, addr, topic string, partition int32) bool {
	sess := s.current()
	if sess == nil {
		return false
	}
	sess.queue.mu.Lock()
	defer sess.queue.mu.Unlock()
	p := sess.queue.partitions[partitionID{topic, partition}]
	return p != nil && p.meter == s.meters.at(addr)
}

// Crash ends a source as SIGKILL would, as far as others can see: nothing is
// committed any more, and the group is not told. The caller cancels Run's
// context after it.
func (s *Source) Crash() { s.dialer.cut() }
