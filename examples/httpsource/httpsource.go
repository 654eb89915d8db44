// Package httpsource takes events by HTTP: a source of one's own, for partners that
// send webhooks instead of writing to Kafka.
//
// It shows what a source is: it makes an inbox.Event of what came, stores it, and
// acknowledges only after the commit. The sender repeats until it is told that the
// event is stored; a repetition is a duplicate, by the event's id, and is told the
// same, so that it stops. Two different events of one id are a conflict, which is
// answered as one. Whatever the database does not take for the moment is answered by
// 503, and the sender comes again.
//
// Each event is stored together with a line of the service's own in one transaction,
// with Store.Add. A source that has nothing else to write calls Store.Put, which makes
// its own. Handlers run wherever a processor does, in this process or in another.
package httpsource

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/inbox"
)

// Tables are the service's own.
const Tables = `create table calls (id bigint generated always as identity primary key, event text not null, outcome text not null)`

// maxBody is the largest payload that is taken.
const maxBody = 1 << 20

// Source is an http.Handler for
//
//	POST /events/{type}/{aggregate}
//	Event-Id: 7d1f…
//
// with the payload as the body. It answers 201 for an event that is stored, 200 for
// one that was stored before, 409 for another event of the same id, 422 for one that
// can never be stored, and 503 for all that may go better the next time.
type Source struct {
	Pool  *pgxpool.Pool
	Store *inbox.Store
	Log   *slog.Logger
}

// Handler gives the routes.
func (s Source) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /events/{type}/{aggregate}", s.take)
	return mux
}

func (s Source) take(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	case err != nil:
		return // the sender is gone
	}
	event := inbox.Event{
		ID: r.Header.Get("Event-Id"), AggregateID: r.PathValue("aggregate"), Type: r.PathValue("type"), Payload: body,
		Headers: []inbox.Header{{Name: "traceparent", Value: []byte(r.Header.Get("Traceparent"))}},
	}
	if err := event.Validate(); err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	outcome, err := s.store(r.Context(), event)
	if err != nil {
		s.Log.Error("event not stored", "event_id", event.ID, "error", err)
		http.Error(w, "try again later", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(map[inbox.Outcome]int{
		inbox.Stored: http.StatusCreated, inbox.Duplicate: http.StatusOK, inbox.Conflict: http.StatusConflict,
	}[outcome])
}

// store returns after the commit.
func (s Source) store(ctx context.Context, event inbox.Event) (outcome inbox.Outcome, err error) {
	err = pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		outcomes, err := s.Store.Add(ctx, tx, event)
		if err != nil {
			return err
		}
		outcome = outcomes[0]
		_, err = tx.Exec(ctx, `insert into calls (event, outcome) values ($1, $2)`, event.ID, outcome.String())
		return err
	})
	return outcome, err
}
