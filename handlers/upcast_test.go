package handlers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
)

type paidV1 struct{ Euros float64 }
type paidV2 struct{ Cents int64 }

func v1to2(e handlers.Event[paidV1]) (paidV2, error) {
	if e.Data.Euros < 0 {
		return paidV2{}, errors.New("less than nothing was paid")
	}
	return paidV2{Cents: int64(e.Data.Euros * 100)}, nil
}

func v2to3(e handlers.Event[paidV2]) (orderPaid, error) {
	if e.Data.Cents == 0 {
		return orderPaid{}, handlers.Skip(errors.New("nothing was paid"))
	}
	return orderPaid{Amount: e.Data.Cents, Currency: e.Header("currency")}, nil
}

// rename is a step on the payload itself.
func rename(e handlers.Event[map[string]json.RawMessage]) (json.RawMessage, error) {
	e.Data["Amount"] = e.Data["Sum"]
	return json.Marshal(e.Data)
}

func TestAliases(t *testing.T) {
	t.Parallel()
	reg := handlers.New()
	var got []orderPaid
	var types []string
	handlers.On(reg, "Paid", func(_ context.Context, _ pgx.Tx, e handlers.Event[orderPaid]) error {
		got, types = append(got, e.Data), append(types, e.Type)
		return nil
	})
	handlers.Alias(reg, "PaidV1", "PaidV2", handlers.Upcast(v1to2))
	handlers.Alias(reg, "PaidV2", "Paid", handlers.Upcast(v2to3))
	handlers.Alias(reg, "OrderPaid", "Paid")
	handlers.Alias(reg, "PaidRaw", "OrderPaid", handlers.Upcast(rename))
	handlers.Alias(reg, "PaidCount", "PaidV2", handlers.Upcast(func(e handlers.Event[string]) (string, error) {
		return `{"Cents": ` + e.Data + `}`, nil
	}))
	handlers.Alias(reg, "PaidBin", "PaidV1", handlers.Upcast(func(e handlers.Event[paidV1]) (paidV1, error) { return e.Data, nil }).From(fixed{}))
	for _, m := range []*handlers.Message{
		message("PaidV1", `{"Euros": 1.5}`), message("PaidV2", `{"Cents": 7}`), message("OrderPaid", `{"Amount": 9}`),
		message("Paid", `{"Amount": 4}`), message("PaidRaw", `{"Sum": 5}`), message("PaidBin", ``),
		message("PaidCount", `8`),
	} {
		m.Headers = headers("currency", "EUR")
		before := *m
		if err := run(t, reg, m); err != nil {
			t.Errorf("%s: %v", m.Type, err)
		}
		if !reflect.DeepEqual(before, *m) {
			t.Errorf("%s was changed", m.Type)
		}
	}
	want := []orderPaid{{150, "EUR"}, {7, "EUR"}, {9, ""}, {4, ""}, {5, ""}, {4200, "EUR"}, {8, "EUR"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
	if !reflect.DeepEqual(types, []string{"PaidV1", "PaidV2", "OrderPaid", "Paid", "PaidRaw", "PaidBin", "PaidCount"}) {
		t.Errorf("types %v", types)
	}
	if entries := reg.Seal(); entries["PaidV1"] != entries["Paid"] {
		t.Error("an alias has an entry of its own")
	}
	if !reg.Has("PaidV1") || !reflect.DeepEqual(reg.Types(), []string{"OrderPaid", "Paid", "PaidBin", "PaidCount", "PaidRaw", "PaidV1", "PaidV2"}) {
		t.Errorf("types %v", reg.Types())
	}
	if got := handlers.OutcomeOf(run(t, reg, message("PaidV2", `{}`))); got != handlers.Skipped {
		t.Errorf("a step that skips is %s", got)
	}
	err := run(t, reg, message("PaidV1", `{"Euros": -1}`))
	wantText(t, text(err), "upcast PaidV1 from handlers_test.paidV1 to handlers_test.paidV2: less than nothing")
	if handlers.OutcomeOf(err) != handlers.Stuck {
		t.Errorf("a step that fails is %s", handlers.OutcomeOf(err))
	}
	wantText(t, text(run(t, reg, message("PaidV1", `{`))), "decode payload of PaidV1 into handlers_test.paidV1")
}

// fixed is a codec that always gives the same.
type fixed struct{}

func (fixed) Decode(_ *handlers.Message, into any) error { into.(*paidV1).Euros = 42; return nil }

func TestOldAndNewEventsMixInABatch(t *testing.T) {
	t.Parallel()
	reg := handlers.New()
	var got []orderPaid
	handlers.OnBatch(reg, "Paid", func(_ context.Context, _ pgx.Tx, events []handlers.Event[orderPaid]) error {
		for _, e := range events {
			got = append(got, e.Data)
		}
		return nil
	})
	handlers.Alias(reg, "PaidV2", "Paid", handlers.Upcast(v2to3))
	if err := run(t, reg, message("Paid", `{"Amount": 1}`), message("PaidV2", `{"Cents": 2}`)); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, []orderPaid{{Amount: 1}, {Amount: 2}}) {
		t.Errorf("got %v", got)
	}
}

func TestAliasOfSQL(t *testing.T) {
	t.Parallel()
	reg := handlers.New()
	if err := handlers.SQL(reg, "Paid", "select @payload, @event_type"); err != nil {
		t.Fatal(err)
	}
	handlers.Alias(reg, "PaidRaw", "Paid", handlers.Upcast(rename))
	batch, err := queued(t, reg, message("PaidRaw", `{"Sum":5}`))
	if err != nil || fmt.Sprint(batch.QueuedQueries[0].Arguments) != `[{"Amount":5,"Sum":5} PaidRaw]` {
		t.Errorf("%v, %v", batch.QueuedQueries, err)
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	steps := []handlers.Step{handlers.Upcast(v1to2), handlers.Upcast(v2to3)}
	reg := handlers.New()
	header := keep[orderPaid](reg, "header", handlers.WithVersions(handlers.VersionHeader("v", 1), steps...))
	field := keep[orderPaid](reg, "field", handlers.WithVersions(handlers.VersionField("v", 3), steps...))
	for _, tc := range []struct {
		eventType, payload, version string
		amount                      int64
		err                         string
	}{
		{"header", `{"Euros": 1}`, "", 100, ""},
		{"header", `{"Euros": 2}`, "1", 200, ""},
		{"header", `{"Cents": 3}`, "2", 3, ""},
		{"header", `{"Amount": 4}`, "3", 4, ""},
		{"header", `{"Amount": 4}`, "4", 0, "has version 4, but this program knows versions 1 to 3"},
		{"header", `{"Amount": 4}`, "0", 0, "has version 0"},
		{"header", `{"Amount": 4}`, "two", 0, `version of header: "two" is not a version`},
		{"field", `{"v": 1, "Euros": 1}`, "", 100, ""},
		{"field", `{"v": "2", "Cents": 3}`, "", 3, ""},
		{"field", `{"Amount": 4}`, "", 4, ""},
		{"field", `[]`, "", 0, `look for the field "v"`},
		{"field", `{"v": {}}`, "", 0, "is not a version"},
	} {
		m := message(tc.eventType, tc.payload)
		if tc.version != "" {
			m.Headers = headers("v", tc.version)
		}
		*header, *field = nil, nil
		err := run(t, reg, m)
		wantText(t, text(err), tc.err)
		if tc.err != "" && !errors.Is(err, handlers.ErrPermanent) {
			t.Errorf("%v is not permanent", err)
		}
		if got := append(*header, *field...); tc.err == "" && (len(got) != 1 || got[0].Amount != tc.amount) {
			t.Errorf("%s %q: got %v", tc.payload, tc.version, got)
		}
	}
}
