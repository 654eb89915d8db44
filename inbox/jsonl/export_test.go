package jsonl

// SetMax makes the longest line shorter.
func (r *Reader) SetMax(n int) { r.max = n }
