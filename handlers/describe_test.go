package handlers_test

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
)

func TestList(t *testing.T) {
	t.Parallel()
	reg := handlers.New(handlers.WithRetry(handlers.Retry{Attempts: 3}))
	handlers.On(reg, "C", done[orderPaid], handlers.WithDoc("books what was paid"), handlers.WithTimeout(time.Second),
		handlers.WithIsolation(pgx.Serializable), handlers.WithRetry(handlers.Retry{Never: true}),
		handlers.WithVersions(handlers.VersionHeader("v", 1), handlers.Upcast(v1to2), handlers.Upcast(v2to3)))
	handlers.OnBatch(reg, "B", func(context.Context, pgx.Tx, []handlers.Event[string]) error { return nil },
		handlers.WithMax(9), handlers.Single(done[string]))
	if err := handlers.SQL(reg, "A", "select 1"); err != nil {
		t.Fatal(err)
	}
	reg.Ignore("D")
	handlers.Alias(reg, "C1", "C0")
	handlers.Alias(reg, "C0", "C")
	want := []handlers.Description{
		{Type: "A", Form: handlers.Queued, Data: "[]uint8", Statements: []string{"select 1"}, Versions: 1, Retry: &handlers.Retry{Attempts: 3}},
		{Type: "B", Form: handlers.Batched, Data: "string", Versions: 1, Max: 9, Single: true, Retry: &handlers.Retry{Attempts: 3}},
		{Type: "C", Form: handlers.Direct, Data: "handlers_test.orderPaid", Doc: "books what was paid", Aliases: []string{"C0", "C1"},
			Versions: 3, Retry: &handlers.Retry{Never: true}, Isolation: "serializable", Timeout: time.Second},
		{Type: "D", Form: handlers.Ignored},
	}
	for range 2 { // before and after it is in use
		if got := reg.List(); !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v", got)
		}
		reg.Seal()
	}
}
