package pgtest_test
import ("testing";"time";"github.com/inboxd/inboxd/internal/pgtest")
func TestTmpSeq(t *testing.T) {
	begin := time.Now()
	for i := range 400 {
		t.Run("s", func(t *testing.T) { pgtest.Database(t) })
		if i % 50 == 49 { t.Log(time.Since(begin)/50); begin=time.Now() }
	}
}
