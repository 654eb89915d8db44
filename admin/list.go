package admin

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/jackc/pgx/v5"
)

// PageSize is how many lanes a page has at most.
const PageSize = 500

// Page is a part of a list of lanes.
type Page struct {
	Lanes []Lane
	// Next is Filter.After for the page that follows; empty: there is none.
	Next string
}

// Lanes lists the lanes that the filter means, the most urgent state first, and
// in it those that have waited longest; lanes that can run, and any list by
// fingerprint, are in the order in which their aggregates were first heard of.
// It ends at the first error.
func (a *Admin) Lanes(ctx context.Context, f Filter) iter.Seq2[Lane, error] {
	return a.each(ctx, selection{Filter: f})
}

func (a *Admin) each(ctx context.Context, s selection) iter.Seq2[Lane, error] {
	return func(yield func(Lane, error) bool) {
		left := s.Limit
		for {
			size := PageSize
			if s.Limit > 0 {
				size = min(left, PageSize)
			}
			lanes, next, err := a.page(ctx, s, size)
			if err != nil {
				yield(Lane{}, err)
				return
			}
			for _, l := range lanes {
				if !yield(l, nil) {
					return
				}
			}
			if left -= len(lanes); next == "" || left == 0 {
				return
			}
			s.After = next
		}
	}
}

// LanesPage lists one page, for who keeps the place between two requests.
func (a *Admin) LanesPage(ctx context.Context, f Filter) (Page, error) {
	limit := min(f.Limit, PageSize)
	if limit == 0 {
		limit = PageSize
	}
	lanes, next, err := a.page(ctx, selection{Filter: f}, limit)
	return Page{lanes, next}, err
}

// CountLanes answers how many lanes the filter means; Limit and After do not
// count.
func (a *Admin) CountLanes(ctx context.Context, f Filter) (int, error) {
	return a.count(ctx, selection{Filter: f})
}

func (a *Admin) count(ctx context.Context, s selection) (int, error) {
	if err := s.validate(); err != nil {
		return 0, err
	}
	total := 0
	for _, sec := range s.sections() {
		q := sec.query(s)
		var n int
		err := a.read(ctx, func(tx pgx.Tx) error { return tx.QueryRow(ctx, a.in(q.countSQL()), q.args...).Scan(&n) })
		if err != nil {
			return 0, fmt.Errorf("count lanes: %w", err)
		}
		total += n
	}
	return total, nil
}

// page reads up to limit lanes after s.After, and answers where to go on.
func (a *Admin) page(ctx context.Context, s selection, limit int) ([]Lane, string, error) {
	if err := s.validate(); err != nil {
		return nil, "", err
	}
	at, err := parsePlace(s.After)
	if err != nil {
		return nil, "", err
	}
	sections := s.sections()
	if at.section != "" {
		i := slices.IndexFunc(sections, func(sec section) bool { return sec.name == at.section })
		if i < 0 {
			return nil, "", invalid("%q is where a page of another list ended", s.After)
		}
		sections = sections[i:]
	}
	var lanes []Lane
	for _, sec := range sections {
		q := sec.query(s)
		if sec.name == at.section {
			q.after(sec, at)
		}
		sql := q.listSQL(sec, limit-len(lanes)) // it adds an argument
		found, err := a.lanes(ctx, sql, q.args)
		if err != nil {
			return nil, "", err
		}
		lanes = append(lanes, found...)
		if len(lanes) == limit {
			last := lanes[limit-1]
			return lanes, place{sec.name, last.held, last.id}.String(), nil
		}
	}
	return lanes, "", nil
}

func (a *Admin) lanes(ctx context.Context, sql string, args []any) ([]Lane, error) {
	var lanes []Lane
	batch := &pgx.Batch{}
	batch.Queue(byIndexSQL)
	batch.Queue(a.in(sql), args...).Query(func(rows pgx.Rows) (err error) {
		lanes, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (Lane, error) { return scanLane(row) })
		return err
	})
	if err := a.db.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("list lanes: %w", err)
	}
	return lanes, nil
}
