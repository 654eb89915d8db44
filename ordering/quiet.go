package ordering

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// quiet keeps a fault that hits every lane from flooding the log: of failures
// with one fingerprint it lets a few through each minute, and then says how many
// it kept back.
type quiet struct {
	log *slog.Logger

	mu    sync.Mutex
	since time.Time
	said  map[string]int // lines by kind and fingerprint since then
}

const (
	quietAfter = 20 // lines
	quietEvery = time.Minute
)

// line logs, or counts what it does not log.
func (q *quiet) line(level slog.Level, kind, fingerprint string, attrs ...any) {
	if q.allows(kind+" "+fingerprint, time.Now()) {
		q.log.Log(context.Background(), level, kind, attrs...)
	}
}

func (q *quiet) allows(key string, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if now.Sub(q.since) >= quietEvery {
		q.sum()
		q.since, q.said = now, map[string]int{}
	}
	q.said[key]++
	return q.said[key] <= quietAfter
}

// tick says what was kept back, once a minute, also when nothing fails any more.
func (q *quiet) tick(now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.said) > 0 && now.Sub(q.since) >= quietEvery {
		q.sum()
		q.since, q.said = now, map[string]int{}
	}
}

// sum says what was kept back; the mutex is held.
func (q *quiet) sum() {
	for key, n := range q.said {
		if n > quietAfter {
			q.log.Warn("more failures like those were not logged", "what", key, "count", n-quietAfter,
				"since", q.since.UTC().Format(time.RFC3339))
		}
	}
}
