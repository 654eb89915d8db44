package bench

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// commits notes when the transactions of accounts were committed.
type commits struct {
	mu   sync.Mutex
	open map[*pgx.Conn][]string // accounts that are changed by a transaction
	at   map[string]time.Time
}

func newCommits() *commits {
	return &commits{open: map[*pgx.Conn][]string{}, at: map[string]time.Time{}}
}

func (c *commits) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.at)
}

func (c *commits) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.at)
}

func (c *commits) of(account string) (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.at[account]
	return at, ok
}

// TraceQueryStart implements pgx.QueryTracer.
func (c *commits) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (c *commits) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart implements pgx.BatchTracer.
func (c *commits) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

// TraceBatchQuery implements pgx.BatchTracer: it is called with each answer.
func (c *commits) TraceBatchQuery(_ context.Context, conn *pgx.Conn, q pgx.TraceBatchQueryData) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case q.SQL == "commit" && q.Err == nil && q.CommandTag.String() == "COMMIT":
		for _, account := range c.open[conn] {
			c.at[account] = now
		}
		delete(c.open, conn)
	case strings.HasPrefix(q.SQL, "begin"):
		delete(c.open, conn)
	case strings.Contains(q.SQL, ".accounts") && len(q.Args) > 0:
		for _, arg := range q.Args {
			if account, ok := arg.(string); ok && strings.HasPrefix(account, "account-") {
				c.open[conn] = append(c.open[conn], account)
			}
		}
	}
}

// TraceBatchEnd implements pgx.BatchTracer.
func (c *commits) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}
