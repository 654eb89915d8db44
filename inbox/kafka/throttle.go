package kafka

// throttle stops fetching, after p has got records. When half of the buffer is
// used, it is stopped for partitions that hold more than their share: as long as
// there is room, a busy one may have the shares of the quiet ones. When all of it
// is used, it is stopped for all.
func (q *queue) throttle(p *partition) {
	switch half := q.limits.bufferBytes / 2; {
	case q.bytes > q.limits.bufferBytes:
		for _, p := range q.partitions {
			q.pause(p)
		}
	case q.bytes > half && p.bytes > half/len(q.partitions):
		q.pause(p)
	}
}

// relax goes on fetching, after records were stored: partitions that have less
// than half of their share, before they run dry, and all when much room is left.
//
// When the buffer is full, partitions without records go on. It may be full of
// those that cannot be stored, and others must not wait for them. What comes is
// no more than a fetch from each broker, since throttle stops them again then.
func (q *queue) relax() {
	if q.paused == 0 {
		return
	}
	full := q.bytes > q.limits.bufferBytes
	ample := q.bytes <= q.limits.bufferBytes/4
	little := q.limits.bufferBytes / 2 / len(q.partitions) / 2
	for _, p := range q.partitions {
		if p.paused && (ample || len(p.records) == 0 || !full && p.bytes <= little) {
			q.resume(p)
		}
	}
}

func (q *queue) pause(p *partition) {
	if p.paused {
		return
	}
	p.paused = true
	q.paused++
	q.fetcher.Pause(p.id.asMap())
}

func (q *queue) resume(p *partition) {
	p.paused = false
	q.paused--
	if !p.stopped {
		q.fetcher.Resume(p.id.asMap())
	}
}
