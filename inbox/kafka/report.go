package kafka

import (
	"fmt"
	"sync"
	"time"
)

// often keeps what happens again and again from filling the log: each matter is
// let through once a minute.
type often struct {
	mu   sync.Mutex
	last map[string]*occasion
}

type occasion struct {
	first  time.Time // since when it goes on
	logged time.Time
	held   int // how often it was not let through since
	kind   string
}

const logInterval = time.Minute

// allow reports whether a matter may be logged now, and how often it was held
// back since the last time.
func (o *often) allow(matter string) (held int, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	at := o.last[matter]
	if at == nil {
		at = &occasion{first: now}
		if o.last == nil {
			o.last = map[string]*occasion{}
		}
		o.last[matter] = at
	}
	if now.Sub(at.logged) < logInterval {
		at.held++
		return 0, false
	}
	held, at.held, at.logged = at.held, 0, now
	return held, true
}

// turned lets a matter through that goes on, but is of another kind now.
func (o *often) turned(matter, kind string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if at := o.last[matter]; at != nil && at.kind != kind {
		at.kind, at.logged = kind, time.Time{}
	}
}

// over forgets a matter, and says since when it went on if it did.
func (o *often) over(matter string) (since time.Time, was bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	at := o.last[matter]
	delete(o.last, matter)
	if at == nil {
		return time.Time{}, false
	}
	return at.first, true
}

// trouble logs what goes wrong and is tried again, and keeps it for Stats.
func (s *Source) trouble(matter, sentence string, err error, attrs ...any) {
	if words := s.explain(err); words != "" {
		err = fmt.Errorf("%s: %w", words, err)
		s.often.turned(matter, words)
	}
	s.mu.Lock()
	s.lastError, s.lastErrorAt = err.Error(), time.Now()
	s.mu.Unlock()
	held, ok := s.often.allow(matter)
	if !ok {
		return
	}
	attrs = append([]any{"group", s.cfg.Group, "error", err}, attrs...)
	if held > 0 {
		attrs = append(attrs, "more_since_last", held)
	}
	s.log.Warn(sentence, attrs...)
}

// better logs the end of a trouble, if there was one.
func (s *Source) better(matter, sentence string) {
	if since, was := s.often.over(matter); was {
		s.log.Info(sentence, "group", s.cfg.Group, "after", time.Since(since).Round(time.Millisecond).String())
	}
}
