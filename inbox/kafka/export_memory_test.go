package kafka

// Paused is how many partitions are not fetched because the buffer is used up.
func Paused(s *Source) int {
	sess := s.current()
	if sess == nil {
		return 0
	}
	sess.queue.mu.Lock()
	defer sess.queue.mu.Unlock()
	return sess.queue.paused
}
