package inboxtest

import (
	"context"
	"testing"
)

// atCommit does something to the connection on which a commit is about to be sent.
type atCommit struct {
	noFaults
	f func(*wire)
}

func (p atCommit) commit(w *wire) { p.f(w) }

// A cut before a commit undoes the transaction, a cut after it does not; whoever
// committed hears of neither.
func TestCutAtACommit(t *testing.T) {
	t.Parallel()
	k := New(t, Options{Setup: `create table x (n int)`})
	heard := 0
	for _, c := range []struct {
		n, kept int
		cut     func(*wire)
	}{
		{1, 0, (*wire).sever},
		{2, 1, func(w *wire) { w.arm(func() { heard++ }) }},
	} {
		conn, err := k.pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		k.probe.follow(atCommit{f: c.cut})
		ctx := context.Background()
		for _, sql := range []string{"begin", "insert into x values (1)"} {
			if _, err := conn.Exec(ctx, sql); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := conn.Exec(ctx, "commit"); err == nil {
			t.Errorf("%d: the commit was heard of", c.n)
		}
		conn.Release()
		if got := Get[int](k, `select count(*) from x`); got != c.kept {
			t.Errorf("%d: %d rows are kept, want %d", c.n, got, c.kept)
		}
	}
	if heard != 1 {
		t.Errorf("told %d times", heard)
	}
}

// A wire whose commit failed goes on as one that was never armed.
func TestDisarm(t *testing.T) {
	t.Parallel()
	k := New(t, Options{})
	conn, err := k.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	w := wireOf(conn.Conn())
	w.arm(func() { t.Error("cut") })
	if _, err := conn.Exec(t.Context(), "select 1"); err != nil {
		t.Fatal(err)
	}
	w.disarm()
	for _, sql := range []string{"begin", "commit"} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
}
