package handlers_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
)

func TestJSONIsDecoded(t *testing.T) {
	t.Parallel()
	strict, exact := handlers.JSON{RefuseUnknown: true}, handlers.JSON{UseNumber: true}
	const digits = "123456789012345678901234567890"
	for name, tc := range map[string]struct {
		codec   handlers.Codec
		payload string
		want    orderPaid
		err     string
	}{
		"plain":               {handlers.JSON{}, `{"amount": 7, "Currency": "EUR"}`, orderPaid{7, "EUR"}, ""},
		"unknown field":       {handlers.JSON{}, `{"Amount": 7, "Note": "x"}`, orderPaid{Amount: 7}, ""},
		"unknown refused":     {strict, `{"Amount": 7, "Note": "x"}`, orderPaid{}, `decode payload of A into handlers_test.orderPaid: json: unknown field "Note"`},
		"strict":              {strict, ` {"Amount": 7} `, orderPaid{Amount: 7}, ""},
		"strict with a rest":  {strict, `{"Amount": 7} {}`, orderPaid{}, "something behind the JSON value"},
		"a rest":              {handlers.JSON{}, `{"Amount": 7} {}`, orderPaid{}, "after top-level value"},
		"strict of nothing":   {strict, ``, orderPaid{}, "the payload is empty"},
		"number out of range": {handlers.JSON{}, `{"Amount": ` + digits + `}`, orderPaid{}, "cannot unmarshal number"},
		"null":                {exact, `null`, orderPaid{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reg := handlers.New(handlers.WithCodec(tc.codec))
			got := keep[orderPaid](reg, "A")
			err := run(t, reg, message("A", tc.payload))
			wantText(t, text(err), tc.err)
			if tc.err != "" {
				if !errors.Is(err, handlers.ErrPermanent) || len(*got) != 0 {
					t.Errorf("%v is not permanent, or the handler ran", err)
				}
				return
			}
			if !reflect.DeepEqual(*got, []orderPaid{tc.want}) {
				t.Errorf("got %+v", *got)
			}
		})
	}
	reg := handlers.New()
	got := keep[map[string]any](reg, "A", handlers.WithCodec(exact))
	if err := run(t, reg, message("A", `{"n": `+digits+`}`)); err != nil || (*got)[0]["n"] != json.Number(digits) {
		t.Errorf("got %v, %v", *got, err)
	}
}

func TestPayloadAsItCame(t *testing.T) {
	t.Parallel()
	const payload = "\x00 no JSON \xff"
	reg := handlers.New(handlers.WithCodec(handlers.JSON{RefuseUnknown: true}))
	asBytes, asText, asJSON := keep[[]byte](reg, "bytes"), keep[string](reg, "text"), keep[json.RawMessage](reg, "raw")
	for _, eventType := range []string{"bytes", "text", "raw"} {
		if err := run(t, reg, message(eventType, payload)); err != nil {
			t.Error(err)
		}
	}
	if string((*asBytes)[0]) != payload || (*asText)[0] != payload || string((*asJSON)[0]) != payload {
		t.Errorf("%q %q %q", *asBytes, *asText, *asJSON)
	}
}

func TestPointerDataIsNeverNil(t *testing.T) {
	t.Parallel()
	reg := handlers.New()
	got := keep[*orderPaid](reg, "A")
	for _, payload := range []string{`null`, `{"Amount": 2}`} {
		if err := run(t, reg, message("A", payload)); err != nil {
			t.Fatal(err)
		}
	}
	if *(*got)[0] != (orderPaid{}) || (*got)[1].Amount != 2 {
		t.Errorf("%v", *got)
	}
}

// byHeader is a codec that looks at a header and fails as it is told.
type byHeader struct{ err error }

func (c byHeader) Decode(m *handlers.Message, into any) error {
	if c.err != nil {
		return c.err
	}
	into.(*orderPaid).Currency = m.Header("currency")
	return nil
}

func TestCodecs(t *testing.T) {
	t.Parallel()
	closed := errors.New("the schema registry is away")
	reg := handlers.New(handlers.WithCodec(byHeader{}))
	usual := keep[orderPaid](reg, "usual")
	own := keep[orderPaid](reg, "own", handlers.WithCodec(handlers.JSON{}))
	keep[orderPaid](reg, "paused", handlers.WithCodec(byHeader{handlers.Pause(closed)}))
	keep[orderPaid](reg, "slow", handlers.WithCodec(byHeader{handlers.RetryAfter(closed, time.Second)}))
	keep[orderPaid](reg, "failed", handlers.WithCodec(byHeader{closed}))
	m := message("usual", "")
	m.Headers = headers("currency", "USD", "currency", "EUR")
	if err := errors.Join(run(t, reg, m), run(t, reg, message("own", `{"Currency": "SEK"}`))); err != nil {
		t.Fatal(err)
	}
	if (*usual)[0].Currency != "EUR" || (*own)[0].Currency != "SEK" {
		t.Errorf("%v %v", *usual, *own)
	}
	if got := handlers.OutcomeOf(run(t, reg, message("paused", ""))); got != handlers.Paused {
		t.Errorf("a codec that pauses is %s", got)
	}
	if got := handlers.OutcomeOf(run(t, reg, message("slow", ""))); got != handlers.Retried {
		t.Errorf("a codec that asks for time is %s", got)
	}
	err := run(t, reg, message("failed", ""))
	if handlers.OutcomeOf(err) != handlers.Stuck || !errors.Is(err, closed) {
		t.Errorf("a codec that fails gives %v", err)
	}
}

func TestBatchesDecodeAllOrNothing(t *testing.T) {
	t.Parallel()
	var got []string
	reg := handlers.New()
	handlers.OnBatch(reg, "A", func(_ context.Context, _ pgx.Tx, events []handlers.Event[orderPaid]) error {
		for _, e := range events {
			got = append(got, e.ID+" "+e.Data.Currency)
		}
		return nil
	})
	if err := run(t, reg, messages("A", `{"Currency":"EUR"}`, `{"Currency":"SEK"}`)...); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, []string{"e-1 EUR", "e-2 SEK"}) {
		t.Errorf("got %v", got)
	}
	got = nil
	if err := run(t, reg, messages("A", `{}`, `no`)...); !errors.Is(err, handlers.ErrPermanent) || got != nil {
		t.Errorf("got %v and %v", err, got)
	}
}

func TestSingleGetsWhatIsAlone(t *testing.T) {
	t.Parallel()
	var got []int
	reg := handlers.New()
	handlers.OnBatch(reg, "A", func(_ context.Context, _ pgx.Tx, events []handlers.Event[orderPaid]) error {
		got = append(got, len(events))
		return nil
	}, handlers.Single(func(_ context.Context, _ pgx.Tx, e handlers.Event[orderPaid]) error {
		got = append(got, -int(e.Data.Amount))
		return nil
	}), handlers.WithMax(7))
	for _, payloads := range [][]string{{`{}`, `{}`}, {`{"Amount":5}`}} {
		if err := run(t, reg, messages("A", payloads...)...); err != nil {
			t.Fatal(err)
		}
	}
	if !reflect.DeepEqual(got, []int{2, -5}) || reg.Seal()["A"].Max != 7 {
		t.Errorf("got %v", got)
	}
}

func TestQueuedHandlers(t *testing.T) {
	t.Parallel()
	reg := handlers.New()
	handlers.OnQueue(reg, "A", func(_ context.Context, b *pgx.Batch, e handlers.Event[orderPaid]) error {
		b.Queue("insert into paid values ($1)", e.Data.Amount)
		return nil
	})
	if err := handlers.SQL(reg, "B", "select @event_id, @position", "select @payload::jsonb, @payload_bytes"); err != nil {
		t.Fatal(err)
	}
	batch, err := queued(t, reg, message("A", `{"Amount": 9}`))
	if err != nil || batch.Len() != 1 || batch.QueuedQueries[0].Arguments[0] != int64(9) {
		t.Errorf("%+v, %v", batch.QueuedQueries, err)
	}
	batch, err = queued(t, reg, message("B", `{}`))
	if err != nil || batch.Len() != 2 || batch.QueuedQueries[0].SQL != "select $1, ($2::bigint)" ||
		batch.QueuedQueries[1].Arguments[0] != "{}" {
		t.Errorf("%+v, %v", batch.QueuedQueries, err)
	}
	_, err = queued(t, reg, message("B", "\xff"))
	wantText(t, text(err), "use @payload_bytes")
}
