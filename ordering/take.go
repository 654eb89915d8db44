package ordering

import (
	"strings"

	"github.com/jackc/pgx/v5"
)

// A turn of queued handlers alone is known whole before any of it is sent. Its
// lanes' cursors then move first: claim and advance become one statement, take,
// which writes a lane's row once where the two would lock and write it. What moves
// first is as safe as what moves last, since it is one transaction, as long as
// nothing between can end that transaction.

// takes reports that the transaction gathered last may begin with the cursors.
func (t *turn) takes(plans []plan) bool {
	if t.open || t.controls || t.isolation != "" ||
		t.conn.Config().DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol {
		return false
	}
	for _, p := range plans {
		if p.from == 0 && p.lane.parked || p.lane.crashes > 0 {
			return false
		}
	}
	return true
}

// take has the statement that claims the lanes complete the plans as well.
func (t *turn) take(plans []plan) {
	t.taken = true
	q := t.batch.QueuedQueries[t.claimed]
	limits := q.Arguments[claimLimits:]
	if len(plans) == 1 {
		l, cursor, last := plans[0].edges()
		q.SQL = t.p.sql.take
		q.Arguments = append([]any{t.p.id.Load(), l.id, cursor, l.version, last.Position, last.segment}, append(limits, true)...)
		return
	}
	k := len(plans)
	ids, cursors, lasts := make([]int64, k), make([]int64, k), make([]int64, k)
	versions, segments := make([]int32, k), make([]int32, k)
	for i, p := range plans {
		l, cursor, last := p.edges()
		ids[i], cursors[i], versions[i], lasts[i], segments[i] = l.id, cursor, l.version, last.Position, last.segment
	}
	q.SQL = t.p.sql.takeGroup
	q.Arguments = append([]any{t.p.id.Load(), ids, cursors, versions, lasts, segments}, limits...)
}

// claimLimits is where the time-outs begin among the arguments of claim.
const claimLimits = 4

// edges are the lane's cursor before the plan, and the plan's last event.
func (p plan) edges() (l *lane, cursor int64, last *event) {
	return p.lane, p.lane.cursor + int64(p.from), &p.lane.events[p.from+p.n-1]
}

// controls reports that a statement may begin or end a transaction. What stands
// in one word may be the name of a prepared statement, which tells nothing.
func controls(sql string) bool {
	word, rest := firstWord(sql)
	switch strings.ToLower(word) {
	case "abort", "begin", "commit", "end", "prepare", "release", "rollback", "savepoint", "start":
		return true
	}
	return strings.TrimSpace(rest) == ""
}

// firstWord splits a statement's first word off, past comments and empty statements.
func firstWord(sql string) (word, rest string) {
	for {
		sql = strings.TrimLeft(sql, "; \t\r\n\f\v")
		switch {
		case strings.HasPrefix(sql, "--"):
			i := strings.IndexAny(sql, "\r\n")
			if i < 0 {
				return "", ""
			}
			sql = sql[i:]
		case strings.HasPrefix(sql, "/*"):
			sql = afterComment(sql)
		default:
			i := 0
			for i < len(sql) && (sql[i]|0x20 >= 'a' && sql[i]|0x20 <= 'z' || sql[i] == '_' || sql[i] >= '0' && sql[i] <= '9' || sql[i] >= 0x80) {
				i++
			}
			return sql[:i], sql[i:]
		}
	}
}

// afterComment is what follows the comment that the statement begins with; they nest.
func afterComment(sql string) string {
	depth := 0
	for i := 0; i+1 < len(sql); {
		switch sql[i : i+2] {
		case "/*":
			depth, i = depth+1, i+2
		case "*/":
			if depth, i = depth-1, i+2; depth == 0 {
				return sql[i:]
			}
		default:
			i++
		}
	}
	return ""
}
