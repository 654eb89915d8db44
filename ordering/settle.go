package ordering

import (
	"context"
	"time"
)

// settleEvery is how often the settler looks at the lanes that workers left. A
// burst of events for one lane costs one visit.
const settleEvery = 200 * time.Millisecond

// settleLoop has the database put right, for lanes that workers left, what the
// sweep goes by; see settle() in the migrations.
func (p *Processor) settleLoop(ctx context.Context) {
	ticker := time.NewTicker(settleEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-p.sched.settle:
			// A lane that another process runs comes back at once; not too soon.
			rest := time.NewTimer(restSweep)
			select {
			case <-ctx.Done():
			case <-rest.C:
			}
			rest.Stop()
		}
		if ids := p.sched.takeLeft(); len(ids) > 0 {
			if err := p.settleOnce(ctx, ids); err != nil {
				p.sched.settled(nil, nil, ids)
				if ctx.Err() == nil {
					p.outage.wait(ctx, err)
				}
			}
		}
	}
}

func (p *Processor) settleOnce(ctx context.Context, ids []int64) error {
	var runnable, held, idle []int64
	if err := p.pool.QueryRow(ctx, p.sql.settle, ids).Scan(&runnable, &held, &idle); err != nil {
		return err
	}
	answered := make(map[int64]struct{}, len(ids))
	for _, list := range [][]int64{runnable, held, idle} {
		for _, id := range list {
			answered[id] = struct{}{}
		}
	}
	var again []int64 // being stored to just now
	for _, id := range ids {
		if _, ok := answered[id]; !ok {
			again = append(again, id)
		}
	}
	p.sched.settled(append(held, idle...), runnable, again)
	return nil
}
