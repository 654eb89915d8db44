package admin

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Filter says which lanes are meant. The zero Filter means every lane that is
// not idle.
type Filter struct {
	// State is the one state that lanes must have. Empty: any but Idle.
	State State
	// Error is the fingerprint that the head's last error must have.
	Error string
	// Type is the event type that the head must have.
	Type string
	// OlderThan is how long ago Lane.Since must be at least. Idle lanes have no
	// such time, and are left out when it is given.
	OlderThan time.Duration
	// Limit is how many lanes there are at most. 0: all; for a page: PageSize.
	Limit int
	// After is where to go on: Page.Next of the page before.
	After string
}

func (f Filter) validate() error {
	switch {
	case f.State != "" && !slices.Contains(States(), f.State):
		words := make([]string, len(States()))
		for i, s := range States() {
			words[i] = string(s)
		}
		return invalid("there is no state %q; the states are %s", string(f.State), strings.Join(words, ", "))
	case f.OlderThan < 0:
		return invalid("older than %s makes no sense: it must not be negative", f.OlderThan)
	case f.Limit < 0:
		return invalid("the limit is %d, but must not be negative", f.Limit)
	}
	return nil
}

// place is where a list stands: in which section, and behind which lane.
type place struct {
	section string
	since   time.Time // of the last lane, in sections in order of time
	lane    int64
}

func (p place) String() string {
	if p.section == "" {
		return ""
	}
	return fmt.Sprintf("%s.%d.%d", p.section, p.since.UnixMicro(), p.lane)
}

func parsePlace(s string) (place, error) {
	if s == "" {
		return place{}, nil
	}
	parts := strings.Split(s, ".")
	if len(parts) == 3 {
		micros, err1 := strconv.ParseInt(parts[1], 10, 64)
		lane, err2 := strconv.ParseInt(parts[2], 10, 64)
		if err1 == nil && err2 == nil {
			return place{parts[0], time.UnixMicro(micros), lane}, nil
		}
	}
	return place{}, invalid("%q is not where a page of lanes ended", s)
}
