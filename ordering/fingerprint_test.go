package ordering

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/inbox"
)

func pg(code, message string, more ...string) error {
	e := &pgconn.PgError{Severity: "ERROR", Code: code, Message: message}
	if len(more) > 0 {
		e.TableName, e.ConstraintName = more[0], more[1]
	}
	return e
}

func texts(format string, args ...any) []error {
	var errs []error
	for _, a := range args {
		errs = append(errs, fmt.Errorf(format, a))
	}
	return errs
}

// undecodable is how an event fails whose payload does not fit its handler.
func undecodable(t *testing.T, id string) error {
	t.Helper()
	reg := handlers.New()
	handlers.On(reg, "Paid", func(context.Context, pgx.Tx, handlers.Event[struct{ Amount int }]) error { return nil })
	err := reg.Seal()["Paid"].Handle(context.Background(), &handlers.Call{Events: []*handlers.Message{{
		Event: inbox.Event{ID: id, Type: "Paid", Payload: []byte(`{"Amount": "much"}`)},
	}}})
	if err == nil {
		t.Fatal("the payload was decoded")
	}
	return err
}

// Failures of one cause have one fingerprint, whatever ids, numbers, times and
// values they name; failures of different causes have different ones.
func TestFingerprintTellsCausesApart(t *testing.T) {
	t.Parallel()
	causes := map[string][]error{
		"a value that is no integer": {
			pg("22P02", `invalid input syntax for type integer: "abc"`),
			pg("22P02", `invalid input syntax for type integer: "12 \"x\""`),
			pg("22P02", `invalid input syntax for type integer: ""`),
		},
		"a value that is no uuid": {
			pg("22P02", `invalid input syntax for type uuid: "abc"`),
		},
		"an order stored twice": {
			pg("23505", `duplicate key value violates unique constraint "orders_pkey"`, "orders", "orders_pkey"),
			pg("23505", `duplicate key value violates unique constraint "orders_pkey"`, "orders", "orders_pkey"),
		},
		"the same, said with its number": {
			fmt.Errorf("insert order 17: %w", pg("23505", `duplicate key value violates unique constraint "orders_pkey"`, "orders", "orders_pkey")),
			fmt.Errorf("insert order 18: %w", pg("23505", `duplicate key value violates unique constraint "orders_pkey"`, "orders", "orders_pkey")),
		},
		"a payment stored twice": {
			pg("23505", `duplicate key value violates unique constraint "payments_pkey"`, "payments", "payments_pkey"),
		},
		"an unknown customer": {
			pg("23503", `insert or update on table "orders" violates foreign key constraint "orders_customer"`, "orders", "orders_customer"),
		},
		"a missing table": {pg("42P01", `relation "orders" does not exist`)},
		"another":         {pg("42P01", `relation "payments" does not exist`)},
		"a division":      {pg("22012", `division by zero`)},
		"the same words with another state": {
			pg("22013", `division by zero`),
		},
		"an order that is not there": texts("order %v not found", 4711, 4712, "4711-a", "ORD-2024-000017",
			"8c0e1b1e-6c0f-4f0e-9d6b-0f5a5d1c2b3a", "01HV6P3W8Q6Z4K2N9X5T7R1M0B", "0xdeadbeef", `"north"`, "'south'"),
		"a customer that is not there": texts("customer %v not found", 4711),
		"a bank that is closed": texts("ask the bank at %v: closed", "2024-05-01T10:00:00Z", "2024-05-01 10:00:00.123+02:00",
			"2024-05-01T10:00", "1714557600"),
		"a bank that does not answer": {
			errors.New("dial tcp 10.0.0.1:5432: connect: connection refused"),
			errors.New("dial tcp 10.0.0.2:40321: connect: connection refused"),
		},
		"a panic": {
			&handlers.PanicError{Value: errors.New("runtime error: index out of range [5] with length 3")},
			&handlers.PanicError{Value: errors.New("runtime error: index out of range [17] with length 0")},
		},
		"a time-out of a few": texts("took %v, longer than allowed", "1.5s", "2m3s", "300ms"),
		"a payload that cannot be decoded": {
			undecodable(t, "e-17"), undecodable(t, "8c0e1b1e-6c0f-4f0e-9d6b-0f5a5d1c2b3a"),
			undecodable(t, "north"), undecodable(t, "south"),
		},
		"a key that is taken": {
			errors.New(`Key (id)=(17) already exists`),
			errors.New(`Key (id)=(north) already exists`),
		},
		"an account that isn't open":  {errors.New("the customer's account isn't open")},
		"an order that isn't open":    {errors.New("the customer's order isn't open")},
		"a type without a handler":    {fmt.Errorf("%w %q", ErrNoHandler, "OrderPaid")},
		"another without a handler":   {fmt.Errorf("%w %q", ErrNoHandler, "OrderShipped")},
		"a cause on the first line":   {errors.New("first\nsecond 1"), errors.New("first\nother"), errors.New("first  ")},
		"a cause on the second line?": {errors.New("second\nfirst")},
	}
	seen := map[string]string{}
	for cause, errs := range causes {
		first := describe(errs[0]).fingerprint
		for _, err := range errs[1:] {
			if got := describe(err).fingerprint; got != first {
				t.Errorf("%s: %q and %q have different fingerprints", cause, errs[0], err)
			}
		}
		if other, ok := seen[first]; ok {
			t.Errorf("%s and %s have one fingerprint", cause, other)
		}
		seen[first] = cause
	}
}

func TestFingerprintIsStable(t *testing.T) {
	t.Parallel()
	const want = "17b8d1eac10f" // what is stored in tables by older versions
	if got := fingerprint("22012", "division by zero"); got != want {
		t.Errorf("the fingerprint is %s, it was %s: lanes grouped before and after an update would differ", got, want)
	}
}

// What is stored of an error fits into a text column and a json one, whatever
// the error says.
func TestErrorsOfAnyTextAreStored(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "a\x00b", "\xff\xfe", strings.Repeat("ä", maxMessage), strings.Repeat("\xe4", 3*maxMessage)} {
		c := describe(&handlers.PanicError{Value: text, Stack: []byte(text)})
		if !utf8.ValidString(c.message) || strings.ContainsRune(c.message, 0) || len(c.message) > 3*maxMessage+10 {
			t.Errorf("%.20q is stored as %d bytes, %.40q", text, len(c.message), c.message)
		}
		var detail map[string]any
		if err := json.Unmarshal([]byte(c.detail("v1")), &detail); err != nil || strings.Contains(c.detail("v1"), `\u0000`) {
			t.Errorf("%.20q has the detail %.60s, %v", text, c.detail("v1"), err)
		}
	}
}

// FuzzFingerprint looks for texts that cannot be described, and for causes whose
// fingerprint changes with a number.
func FuzzFingerprint(f *testing.F) {
	f.Add("order %d not found", 17, 18)
	f.Add(`Key (id)=(%d) already exists`, 1, 2)
	f.Add("it isn't %d", 1, 2)
	f.Fuzz(func(t *testing.T, format string, a, b int) {
		if strings.Count(format, "%") != 1 || !strings.Contains(format, " %d ") {
			return
		}
		one, two := fmt.Sprintf(format, a), fmt.Sprintf(format, b)
		if x, y := fingerprint("", one), fingerprint("", two); x != y && a >= 0 && b >= 0 {
			t.Errorf("%q and %q have different fingerprints", one, two)
		}
		describe(errors.New(format))
	})
}
