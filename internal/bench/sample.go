package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// sample is what was found at one moment of Level.
type sample struct {
	at             time.Duration // since the run began
	fed, processed int64         // events, since the stage was made
	tables         map[string]table
}

// table is what a sample knows of a table, its partitions and indexes included.
type table struct {
	bytes  int64
	writes int64 // rows inserted, updated and deleted, of all time
	dead   int64 // rows that vacuum has not taken yet, as PostgreSQL estimates
	vacuum int64 // how often autovacuum has been there
}

// growing are the tables that keep a row an event, or a row a transaction: they
// are judged by their bytes an event, which is what is to stay level.
var growing = []string{"inbox", "runs"}

// handlersTable is the table of the handler's: inboxd does not answer for its size.
const handlersTable = "accounts"

// sample looks at the counts and the tables.
func (l *levelRun) sample(ctx context.Context, at time.Duration) (sample, error) {
	const tables = `
		select coalesce(p.relname, c.relname)::text, sum(pg_total_relation_size(c.oid))::bigint,
			coalesce(sum(s.n_tup_ins + s.n_tup_upd + s.n_tup_del), 0)::bigint,
			coalesce(sum(s.n_dead_tup), 0)::bigint, coalesce(sum(s.autovacuum_count), 0)::bigint
		from pg_class c
		left join pg_inherits i on i.inhrelid = c.oid
		left join pg_class p on p.oid = i.inhparent
		left join pg_stat_all_tables s on s.relid = c.oid
		where c.relnamespace = $1::regnamespace and c.relkind = 'r'
		group by 1`
	rows, err := l.s.pool.Query(ctx, tables, l.s.in("{schema}"))
	if err != nil {
		return sample{}, fmt.Errorf("look at the tables: %w", err)
	}
	now := sample{at: at, fed: l.fed.Load(), processed: l.engine.p.Stats().Processed, tables: map[string]table{}}
	var name string
	var t table
	_, err = pgx.ForEachRow(rows, []any{&name, &t.bytes, &t.writes, &t.dead, &t.vacuum}, func() error {
		now.tables[name] = t
		return nil
	})
	if err != nil {
		return sample{}, fmt.Errorf("look at the tables: %w", err)
	}
	return now, nil
}

// rate is that of processed events since an earlier sample.
func (s sample) rate(since sample) float64 {
	return side{s.processed - since.processed, s.at - since.at}.rate()
}

// perEvent is by how many bytes an event the growing tables grew since an earlier
// sample: inbox by those that were stored, runs by those that were run.
func (s sample) perEvent(since sample) float64 {
	grown := func(table string) float64 { return float64(s.tables[table].bytes - since.tables[table].bytes) }
	return grown("inbox")/float64(max(1, s.fed-since.fed)) + grown("runs")/float64(max(1, s.processed-since.processed))
}

// lanesTable and aggregatesTable have a row a lane, changed by every turn and by
// every batch that is stored.
const lanesTable, aggregatesTable = "lanes", "aggregates"

// hot are the tables whose rows come, change and go in place: those two, and all
// of inboxd's own that were written to since an earlier sample, but for the
// growing ones.
func (s sample) hot(since sample) []string {
	var names []string
	for name, t := range s.tables {
		always := name == lanesTable || name == aggregatesTable
		written := t.writes > since.tables[name].writes && name != handlersTable && !slices.Contains(growing, name)
		if always || written {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// bytes is the size of some tables.
func (s sample) bytes(names []string) (sum int64) {
	for _, name := range names {
		sum += s.tables[name].bytes
	}
	return sum
}

// sampleHead is above the lines of text.
const sampleHead = "  time   rate/s  pending  lanes MB  aggregates  others  accounts  dead rows  B/event"

// text is the sample as a line: the rate and the bytes an event since the sample
// before, the sizes as they are.
func (s sample) text(before sample) string {
	var others, dead int64
	for name, t := range s.tables {
		if slices.Contains(growing, name) {
			continue
		}
		dead += t.dead
		if name != handlersTable && name != lanesTable && name != aggregatesTable {
			others += t.bytes
		}
	}
	size := func(name string) float64 { return megabytes(s.tables[name].bytes) }
	at := s.at.Round(time.Second)
	return fmt.Sprintf("%3d:%02d %8.0f %8d %9.2f %11.2f %7.2f %9.2f %10d %8.0f",
		int(at.Minutes()), int(at.Seconds())%60, s.rate(before), s.fed-s.processed,
		size(lanesTable), size(aggregatesTable), megabytes(others), size(handlersTable), dead, s.perEvent(before))
}

func megabytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }
