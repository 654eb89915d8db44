package doctor

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// CompareClocks is for tests.
var CompareClocks = func(before, there, after time.Time) Result {
	return check{name: "clock"}.result(compareClocks(before, there, after))
}

// Judge is for tests: what is said of a table, and what to do about it.
func Judge(name string, live, dead, bytes int64, off bool) (what, remedy string) {
	return table{Name: name, Live: live, Dead: dead, Bytes: bytes, Off: off}.judge(`"inboxd"`)
}

// Ask is for tests: it runs one check, and takes a snapshot for old that is held
// for longer than old.
func Ask(ctx context.Context, o Options, name string, old time.Duration) Result {
	if o.Limit == 0 {
		o.Limit = time.Minute
	}
	e := &examiner{Options: o, schema: pgx.Identifier{o.Config.Database.Schema}.Sanitize(), old: old}
	for _, list := range [][]check{serverChecks, {{"schema", (*examiner).schemaVersion}}, schemaChecks, {webhookCheck}} {
		for _, c := range list {
			if c.name == name {
				return e.run(ctx, c)
			}
		}
	}
	panic("there is no check " + name)
}
