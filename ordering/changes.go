package ordering

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// changeFirst is what claim says of lanes that an operator wanted to change while
// their handler ran.
const changeFirst = "IBX04"

// changeFirst makes the changes that operators left for these lanes, which are at
// a boundary now, and has the lanes read again.
func (p *Processor) changeFirst(ctx context.Context, conn *pgx.Conn, lanes []*lane) error {
	ids := make([]int64, len(lanes))
	for i, l := range lanes {
		ids[i] = l.id
		l.forget()
	}
	if _, err := conn.Exec(ctx, p.sql.makeChanges, ids); err != nil {
		return outageOnly(conn, err)
	}
	return nil
}
