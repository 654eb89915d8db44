package bench

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Server says in a line what the database is and how it is set.
func Server(ctx context.Context, url string) (string, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	const settings = `select name || ' ' || current_setting(name)
		from unnest(array['fsync', 'synchronous_commit', 'shared_buffers', 'max_wal_size', 'jit']) with ordinality s(name, n) order by n`
	rows, err := conn.Query(ctx, settings)
	if err != nil {
		return "", err
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("PostgreSQL %s (%s)", conn.PgConn().ParameterStatus("server_version"), strings.Join(list, ", ")), nil
}
