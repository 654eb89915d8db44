package admin

import (
	"fmt"
	"time"
)

// Sentence says in words what the lane does or waits for, as of AsOf.
func (l *Lane) Sentence() string {
	switch l.State {
	case Idle:
		return "idle: every event was processed or skipped"
	case Running:
		return "running " + l.headWords() + l.attemptWords() + l.behind()
	case Ready:
		return "ready: " + l.headWords() + " is next, received " + l.age() + " ago" + l.behind()
	case Backoff:
		return l.backoffWords() + l.errorWords() + l.behind()
	case Waiting:
		return "waiting for " + l.age() + " for the next event of its sequence" + l.behind()
	case Paused:
		return l.pausedWords() + l.waitWords()
	}
	return "stuck for " + l.age() + " behind " + l.headWords() + l.attemptWords() + l.errorWords() + l.behind()
}

func (l *Lane) headWords() string {
	if l.Head == nil {
		return "an event that is not in the inbox"
	}
	return l.Head.EventType + " " + l.Head.EventID
}

func (l *Lane) attemptWords() string {
	if l.Attempts == 0 {
		return ""
	}
	if l.AttemptLimit > 0 {
		return fmt.Sprintf(" (attempt %d of %d)", l.Attempts, l.AttemptLimit)
	}
	return fmt.Sprintf(" (attempt %d)", l.Attempts)
}

func (l *Lane) errorWords() string {
	if l.Error == nil {
		return ""
	}
	return ": " + shorten(firstLine(l.Error.Message), 300)
}

func (l *Lane) backoffWords() string {
	when := "now"
	if l.NextAttemptAt != nil && l.NextAttemptAt.After(l.AsOf) {
		when = "in " + Age(l.NextAttemptAt.Sub(l.AsOf))
	}
	words := fmt.Sprintf("backing off: %s runs again %s", l.headWords(), when)
	switch {
	case l.Attempts > 0 && l.AttemptLimit > 0:
		words += fmt.Sprintf(", attempt %d of %d failed", l.Attempts, l.AttemptLimit)
	case l.Attempts > 0:
		words += fmt.Sprintf(", attempt %d failed", l.Attempts)
	}
	return words
}

func (l *Lane) pausedWords() string {
	words := "paused for " + l.age()
	return words + l.pausedBy()
}

func (l *Lane) waitWords() string {
	if l.Pending == 0 {
		return "; no event waits"
	}
	return "; " + count(l.Pending, "event waits", "events wait")
}

// behind says what waits behind the head.
func (l *Lane) behind() string {
	if l.Pending < 2 {
		return ""
	}
	return "; " + count(l.Pending-1, "event waits", "events wait") + " behind it"
}

func (l *Lane) age() string {
	if l.Since == nil {
		return Age(0)
	}
	return Age(l.AsOf.Sub(*l.Since))
}

func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Age is a duration for people: its largest unit, and the next one where the
// first alone says little: 45s, 12m, 3h, 1h20m, 5d.
func Age(d time.Duration) string {
	d = max(d, 0)
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 3*time.Hour && d%time.Hour >= time.Minute:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/day)
}

// shorten cuts a text to so many characters.
func shorten(s string, most int) string {
	n := 0
	for i := range s {
		if n++; n > most {
			return s[:i] + "…"
		}
	}
	return s
}
