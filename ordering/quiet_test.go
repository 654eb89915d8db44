package ordering

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// A cause that hits every lane is logged a few times a minute; how often it was
// not is said once the minute is over; another cause is heard nevertheless.
func TestFailuresDoNotFloodTheLog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	q := &quiet{log: slog.New(slog.NewTextHandler(&out, nil)), said: map[string]int{}}
	for range 1000 {
		q.line(slog.LevelWarn, "event failed", "f1", "error", "no")
	}
	q.line(slog.LevelWarn, "event failed", "f2", "error", "another")
	if n := strings.Count(out.String(), "error=no"); n != quietAfter {
		t.Errorf("%d lines of one cause, want %d", n, quietAfter)
	}
	if !strings.Contains(out.String(), "error=another") {
		t.Error("the other cause is not heard")
	}
	q.tick(time.Now())
	if strings.Contains(out.String(), "not logged") {
		t.Error("it sums up before the minute is over")
	}
	q.tick(time.Now().Add(quietEvery))
	q.tick(time.Now().Add(2 * quietEvery))
	if n := strings.Count(out.String(), "count=980"); n != 1 {
		t.Errorf("summed up %d times, want once:\n%s", n, out.String())
	}
}
