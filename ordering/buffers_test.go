package ordering_test

import (
	"context"
	"encoding/json"
)

// buffers answers how many pages of shared buffers a statement touches once its
// plans are made: the second of two runs.
func (s *stage) buffers(sql string, args ...any) int {
	s.t.Helper()
	ctx := context.Background()
	conn, err := s.pool.Acquire(ctx)
	must(s.t, err)
	defer conn.Release()
	var pages int
	for range 2 {
		var report []byte
		must(s.t, conn.QueryRow(ctx, "explain (analyze, buffers, timing off, format json) "+sql, args...).Scan(&report))
		var plans []struct {
			Plan struct {
				Hit  int `json:"Shared Hit Blocks"`
				Read int `json:"Shared Read Blocks"`
			}
		}
		must(s.t, json.Unmarshal(report, &plans))
		pages = plans[0].Plan.Hit + plans[0].Plan.Read
	}
	return pages
}
