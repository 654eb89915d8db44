// Package sqlshop is a shop whose own code uses database/sql, as services with sqlx,
// GORM or ent do underneath.
//
// It shows how such a service stores events itself, with no broker between: Place
// writes the order and adds an event to the inbox in one transaction of database/sql,
// so that there is no order without its event and no event without its order. What
// follows, reserving stock, is a handler's: it runs after the commit, once, in order
// for each article, and however often Place is called for one order. The aggregate is
// the article, not the order, because it is the stock of an article that must not be
// counted by two at once.
//
// Handlers get a pgx.Tx in any case; both meet in the database. With GORM, what to
// give to AddSQL inside of db.Transaction is tx.Statement.ConnPool, as it is; with
// sqlx it is the Tx within the *sqlx.Tx.
package sqlshop

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/inbox"
)

// Tables are the service's own.
const Tables = `
create table orders (id text primary key, article text not null, count integer not null, state text not null default 'placed');
create table stock (article text primary key, count integer not null check (count >= 0))`

// Order is what a customer wants.
type Order struct {
	ID      string
	Article string
	Count   int
}

// Shop takes orders.
type Shop struct {
	// DB is the service's database, by any driver for PostgreSQL.
	DB *sql.DB
	// Store is the inbox in that database. A Store without a pool of its own does:
	// inbox.NewStore(nil, "").
	Store *inbox.Store
}

// Place takes an order. An order that was placed already is left as it is.
func (s Shop) Place(ctx context.Context, o Order) (err error) {
	payload, err := json.Marshal(o)
	if err != nil {
		return err
	}
	tx, err := s.DB.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("place order %s: %w", o.ID, err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("place order %s: %w", o.ID, errors.Join(err, tx.Rollback()))
		}
	}()
	if _, err := tx.ExecContext(ctx, `insert into orders (id, article, count) values ($1, $2, $3) on conflict do nothing`,
		o.ID, o.Article, o.Count); err != nil {
		return err
	}
	// The event's id is made of the order's: added twice, it is stored once.
	outcomes, err := s.Store.AddSQL(ctx, tx, inbox.Event{
		ID: "order-placed:" + o.ID, AggregateID: o.Article, Type: "OrderPlaced", Payload: payload,
	})
	if err != nil {
		return err
	}
	if outcomes[0] == inbox.Conflict {
		return fmt.Errorf("%w: %s", ErrChanged, o.ID)
	}
	return tx.Commit()
}

// ErrChanged is returned for an order that was placed before, with other contents.
var ErrChanged = errors.New("the order was placed before, and was another one")

// Handlers are those of the service.
func Handlers() *handlers.Registry {
	reg := handlers.New()
	handlers.On(reg, "OrderPlaced", reserve)
	return reg
}

// reserve takes the order's articles from stock, or notes that there are too few.
func reserve(ctx context.Context, tx pgx.Tx, e handlers.Event[Order]) error {
	tag, err := tx.Exec(ctx, `update stock set count = count - $2 where article = $1 and count >= $2`, e.Data.Article, e.Data.Count)
	if err != nil {
		return err
	}
	state := "reserved"
	if tag.RowsAffected() == 0 {
		state = "sold out"
	}
	_, err = tx.Exec(ctx, `update orders set state = $2 where id = $1`, e.Data.ID, state)
	return err
}
