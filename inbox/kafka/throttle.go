package kafka

// room is what the records that wait may take. A partition that holds nothing is
// always fetched, or it would wait for others that cannot be stored: what that may
// bring is kept free, as long as partitions are not too many for it.
func (q *queue) room() int {
	return max(q.limits.bufferBytes/3, q.limits.bufferBytes-len(q.partitions)*q.limits.reserve)
}

// over reports whether not even partitions that hold nothing may be fetched: many
// of them, with a large record each, would take any number of bytes. A record that
// is larger than all the room leaves as much again for the others.
func (q *queue) over() bool {
	if q.bytes <= q.limits.bufferBytes {
		return false
	}
	largest := 0
	for _, p := range q.partitions {
		largest = max(largest, p.bytes)
	}
	return q.bytes > 2*largest
}

// throttle stops fetching, after p has got records. When half of the room is
// used, it is stopped for partitions that hold more than their share: as long as
// there is room, a busy one may have the shares of the quiet ones. When all of it
// is used, it is stopped for all that hold something, and then for the others too.
func (q *queue) throttle(p *partition) {
	room := q.room()
	switch {
	case q.bytes > room:
		over := q.over()
		for _, p := range q.partitions {
			if over || len(p.records) > 0 {
				q.pause(p)
			}
		}
	case q.bytes > room/2 && p.bytes > room/2/len(q.partitions):
		q.pause(p)
	}
}

// relax goes on fetching, after records were stored: partitions that have less
// than half of their share, before they run dry; all, when much room is left; and
// when there is none, those that hold nothing, unless it is over.
func (q *queue) relax() {
	if q.paused == 0 {
		return
	}
	room := q.room()
	ample, full, little := q.bytes <= room/4, q.bytes > room, room/2/len(q.partitions)/2
	over := full && q.over()
	for _, p := range q.partitions {
		if p.paused && (ample || len(p.records) == 0 && !over || !full && p.bytes <= little) {
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
	q.fetcher.Resume(p.id.asMap())
}
