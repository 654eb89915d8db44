package handlers_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
)

type hidden struct{ amount int } //nolint:unused // that nothing can fill it is the point

// What the compiler accepts and cannot work is found when it is registered, with
// a sentence that names the type.
func TestMistakesOfRegistering(t *testing.T) {
	t.Parallel()
	type registry = *handlers.Registry
	queue := func(context.Context, *pgx.Batch, handlers.Event[orderPaid]) error { return nil }
	batch := func(context.Context, pgx.Tx, []handlers.Event[orderPaid]) error { return nil }
	validator := func(orderPaid) error { return nil }
	rename := handlers.Upcast(func(handlers.Event[orderPaid]) (string, error) { return "", nil })
	for name, tc := range map[string]struct {
		register func(r registry)
		want     string
	}{
		"nil registry":    {func(registry) { handlers.On(nil, "A", done[orderPaid]) }, "the registry for the handler of A is nil"},
		"zero registry":   {func(registry) { handlers.On(new(handlers.Registry), "A", done[orderPaid]) }, "make one with handlers.New()"},
		"empty type":      {func(r registry) { handlers.On(r, "", done[orderPaid]) }, "empty event type"},
		"nil On":          {func(r registry) { handlers.On[orderPaid](r, "A", nil) }, `the handler of event type "A" is nil`},
		"nil OnQueue":     {func(r registry) { handlers.OnQueue[orderPaid](r, "A", nil) }, `event type "A" is nil`},
		"nil OnBatch":     {func(r registry) { handlers.OnBatch[orderPaid](r, "A", nil) }, `event type "A" is nil`},
		"nil middleware":  {func(r registry) { r.Use(nil) }, "nil middleware"},
		"twice":           {func(r registry) { handlers.On(r, "A", done[orderPaid]); handlers.OnQueue(r, "A", queue) }, `"A" is registered twice`},
		"also ignored":    {func(r registry) { handlers.On(r, "A", done[orderPaid]); r.Ignore("A") }, `"A" is registered twice`},
		"also an alias":   {func(r registry) { handlers.Alias(r, "A", "B"); handlers.On(r, "A", done[orderPaid]) }, `"A" is registered twice`},
		"alias of taken":  {func(r registry) { handlers.On(r, "A", done[orderPaid]); handlers.Alias(r, "A", "B") }, `"A" is registered twice`},
		"alias of empty":  {func(r registry) { handlers.Alias(r, "A", "") }, "empty event type"},
		"after use":       {func(r registry) { r.Seal(); handlers.On(r, "A", done[orderPaid]) }, "after the registry is in use"},
		"alias after use": {func(r registry) { r.Seal(); handlers.Alias(r, "A", "B") }, "after the registry is in use"},
		"Use after use":   {func(r registry) { r.Seal(); r.Use(handlers.Recover()) }, "after the registry is in use"},

		"interface data":          {func(r registry) { handlers.On(r, "A", done[any]) }, `event type "A": interface {} is an interface`},
		"pointer to interface":    {func(r registry) { handlers.On(r, "A", done[*error]) }, "is an interface"},
		"pointer to pointer":      {func(r registry) { handlers.On(r, "A", done[**orderPaid]) }, "*handlers_test.orderPaid will do"},
		"channel data":            {func(r registry) { handlers.On(r, "A", done[chan int]) }, "no payload can be decoded into chan int"},
		"function data":           {func(r registry) { handlers.On(r, "A", done[func()]) }, "no payload can be decoded"},
		"complex data":            {func(r registry) { handlers.On(r, "A", done[complex128]) }, "JSON cannot be decoded"},
		"fields that JSON passes": {func(r registry) { handlers.On(r, "A", done[hidden]) }, `event type "A": handlers_test.hidden has no exported field`},

		"empty option":           {func(r registry) { handlers.On(r, "A", done[orderPaid], handlers.Option{}) }, `event type "A" has an empty Option`},
		"max on On":              {func(r registry) { handlers.On(r, "A", done[orderPaid], handlers.WithMax(3)) }, `WithMax does not fit event type "A", whose handler is direct; it is for handlers that are batched`},
		"max of none":            {func(r registry) { handlers.OnBatch(r, "A", batch, handlers.WithMax(0)) }, `WithMax on event type "A": 0 is too few`},
		"single on On":           {func(r registry) { handlers.On(r, "A", done[orderPaid], handlers.Single(done[orderPaid])) }, "Single does not fit"},
		"single of another type": {func(r registry) { handlers.OnBatch(r, "A", batch, handlers.Single(done[string])) }, "it takes string, but the handler of batches takes handlers_test.orderPaid"},
		"nil single":             {func(r registry) { handlers.OnBatch(r, "A", batch, handlers.Single[orderPaid](nil)) }, "the handler is nil"},
		"time-out on OnQueue":    {func(r registry) { handlers.OnQueue(r, "A", queue, handlers.WithTimeout(time.Second)) }, "direct or batched"},
		"time-out of nothing":    {func(r registry) { handlers.On(r, "A", done[orderPaid], handlers.WithTimeout(0)) }, "0s is too short"},
		"codec of raw data":      {func(r registry) { handlers.On(r, "A", done[[]byte], handlers.WithCodec(handlers.JSON{})) }, "takes the payload as it came"},
		"nil codec":              {func(r registry) { handlers.On(r, "A", done[orderPaid], handlers.WithCodec(nil)) }, "the codec is nil"},
		"unknown isolation":      {func(r registry) { handlers.On(r, "A", done[orderPaid], handlers.WithIsolation("strict")) }, `"strict" is no isolation level`},
		"nil validation":         {func(r registry) { handlers.On(r, "A", done[orderPaid], handlers.WithValidation[orderPaid](nil)) }, "the function is nil"},
		"validation of another":  {func(r registry) { handlers.On(r, "A", done[string], handlers.WithValidation(validator)) }, "it checks handlers_test.orderPaid, but the handler takes string"},
		"nil per type":           {func(r registry) { handlers.On(r, "A", done[orderPaid], handlers.WithMiddleware(nil)) }, "a middleware is nil"},
		"nil version":            {func(r registry) { handlers.On(r, "A", done[orderPaid], handlers.WithVersions(nil)) }, "reads the version is nil"},
		"versions lead astray": {func(r registry) {
			handlers.On(r, "A", done[int], handlers.WithVersions(handlers.VersionHeader("v", 1), handlers.Upcast(func(handlers.Event[int]) (orderPaid, error) { return orderPaid{}, nil })))
		}, "the last step gives handlers_test.orderPaid, but the handler takes int"},
		"option of a type":    {func(registry) { handlers.New(handlers.WithDoc("x")) }, "WithDoc is for one event type"},
		"wrong option of all": {func(registry) { handlers.New(handlers.WithRetry(handlers.Retry{Attempts: -1})) }, "WithRetry of New: Attempts is -1"},
		"empty option of all": {func(registry) { handlers.New(handlers.Option{}) }, "New was given an empty Option"},

		"retry never and more": {func(r registry) {
			handlers.On(r, "A", done[orderPaid], handlers.WithRetry(handlers.Retry{Never: true, Attempts: 3}))
		}, "Never says nothing else"},
		"retry backwards": {func(r registry) {
			handlers.On(r, "A", done[orderPaid], handlers.WithRetry(handlers.Retry{Initial: time.Minute, Max: time.Second}))
		}, "Max is 1s, less than Initial"},
		"negative wait": {func(r registry) { handlers.On(r, "A", done[orderPaid], handlers.WithRetry(handlers.Retry{Max: -1})) }, "must not be negative"},
		"shrinking wait": {func(r registry) {
			handlers.On(r, "A", done[orderPaid], handlers.WithRetry(handlers.Retry{Multiplier: 0.5}))
		}, "Multiplier is 0.5"},
		"wait that is no number": {func(r registry) {
			handlers.On(r, "A", done[orderPaid], handlers.WithRetry(handlers.Retry{Multiplier: math.NaN()}))
		}, "Multiplier is NaN"},
		"wild jitter": {func(r registry) { handlers.On(r, "A", done[orderPaid], handlers.WithRetry(handlers.Retry{Jitter: 2})) }, "Jitter is 2"},

		"nil upcast":     {func(registry) { handlers.Upcast[orderPaid, string](nil) }, "upcast handlers_test.orderPaid to string is nil"},
		"nil step codec": {func(registry) { rename.From(nil) }, "codec of a Step is nil"},
		"no time-out":    {func(registry) { handlers.Timeout(0) }, "positive duration"},
		"no rate":        {func(registry) { handlers.RateLimit(0, 1) }, "a rate above 0"},
		"no burst":       {func(registry) { handlers.RateLimit(1, 0) }, "a burst of at least 1"},
		"no concurrency": {func(registry) { handlers.Concurrency(0) }, "at least 1"},
		"nil validate":   {func(registry) { handlers.Validate[orderPaid](nil) }, "function of Validate is nil"},
		"nil observer":   {func(registry) { handlers.Metrics(nil) }, "function of Metrics is nil"},
		"nil tracer":     {func(registry) { handlers.Tracing(nil) }, "function of Tracing is nil"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantText(t, panics(func() { tc.register(handlers.New()) }), tc.want)
		})
	}
}

type unmarshaler struct{ n int }

func (u *unmarshaler) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &u.n) }

// What looks like a mistake of the kind above but is none.
func TestUsualTypesRegister(t *testing.T) {
	t.Parallel()
	reg := handlers.New(handlers.WithTimeout(time.Second), handlers.WithRetry(handlers.Retry{Never: true}))
	handlers.On(reg, "struct", done[orderPaid])
	handlers.On(reg, "pointer", done[*orderPaid])
	handlers.On(reg, "nothing", done[struct{}])
	handlers.On(reg, "time", done[time.Time])
	handlers.On(reg, "unmarshaler", done[unmarshaler])
	handlers.On(reg, "map", done[map[string]any])
	handlers.On(reg, "list", done[[]orderPaid])
	handlers.On(reg, "number", done[json.Number])
	handlers.On(reg, "bytes", done[[]byte])
	handlers.On(reg, "embedded", done[struct{ orderPaid }])
	if err := handlers.SQL(reg, "sql", "select @payload"); err != nil {
		t.Error(err)
	}
	for _, e := range reg.Seal() {
		if want := map[bool]time.Duration{true: 0, false: time.Second}[e.Form == handlers.Queued]; e.Timeout != want || e.Retry == nil || !e.Retry.Never {
			t.Errorf("%s has time-out %s and policy %+v", e.Type, e.Timeout, e.Retry)
		}
	}
}

func TestMistakesOfAliases(t *testing.T) {
	t.Parallel()
	toString := handlers.Upcast(func(handlers.Event[orderPaid]) (string, error) { return "", nil })
	toPaid := handlers.Upcast(func(handlers.Event[int]) (orderPaid, error) { return orderPaid{}, nil })
	fromAny := handlers.Upcast(func(handlers.Event[any]) (orderPaid, error) { return orderPaid{}, nil })
	for name, tc := range map[string]struct {
		register func(r *handlers.Registry)
		want     string
	}{
		"no handler": {func(r *handlers.Registry) { handlers.Alias(r, "Old", "Nowhere") }, `"Old" is an alias of "Nowhere", which has no handler`},
		"itself":     {func(r *handlers.Registry) { handlers.Alias(r, "Old", "Old") }, `"Old" is an alias of itself`},
		"circle": {func(r *handlers.Registry) { handlers.Alias(r, "Old", "Older"); handlers.Alias(r, "Older", "Old") },
			`"Old" is an alias of itself, by way of`},
		"ignored":    {func(r *handlers.Registry) { r.Ignore("New"); handlers.Alias(r, "Old", "New") }, `is ignored; ignore both`},
		"other data": {func(r *handlers.Registry) { handlers.On(r, "New", done[int]); handlers.Alias(r, "Old", "New", toPaid) }, "gives handlers_test.orderPaid, but the handler takes int"},
		"broken": {func(r *handlers.Registry) {
			handlers.On(r, "New", done[orderPaid])
			handlers.Alias(r, "Old", "New", toPaid, toPaid)
		}, "one step gives handlers_test.orderPaid and the next takes int"},
		"empty step": {func(r *handlers.Registry) {
			handlers.On(r, "New", done[orderPaid])
			handlers.Alias(r, "Old", "New", handlers.Step{})
		}, "a step is empty"},
		"interface": {func(r *handlers.Registry) {
			handlers.On(r, "New", done[orderPaid])
			handlers.Alias(r, "Old", "New", fromAny)
		}, "is an interface"},
		"raw handler": {func(r *handlers.Registry) {
			handlers.On(r, "New", done[[]byte])
			handlers.Alias(r, "Old", "New", toPaid)
		}, "the handler takes the payload itself"},
		"fine": {func(r *handlers.Registry) {
			handlers.On(r, "New", done[orderPaid])
			handlers.Alias(r, "Old", "New", toString)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reg := handlers.New()
			tc.register(reg)
			wantText(t, text(reg.Check()), tc.want)
			wantText(t, panics(func() { reg.Seal() }), tc.want)
		})
	}
}

func TestMistakesOfSQLAreErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		statements []string
		opts       []handlers.Option
		want       string
	}{
		"none":          {nil, nil, "has no statement"},
		"empty":         {[]string{"select 1", " ; "}, nil, "statement 2 of the sql handler of A: it is empty"},
		"ordinal":       {[]string{"select $1"}, nil, "it holds $1"},
		"unknown name":  {[]string{"select @amount"}, nil, "it may use @aggregate_id"},
		"wrong option":  {[]string{"select 1"}, []handlers.Option{handlers.WithTimeout(time.Second)}, "WithTimeout does not fit"},
		"wrong policy":  {[]string{"select 1"}, []handlers.Option{handlers.WithRetry(handlers.Retry{Attempts: -1})}, "Attempts is -1"},
		"useless codec": {[]string{"select 1"}, []handlers.Option{handlers.WithCodec(handlers.JSON{})}, "takes the payload as it came"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantText(t, text(handlers.SQLWith(handlers.New(), "A", tc.statements, tc.opts...)), tc.want)
		})
	}
	reg := handlers.New()
	if err := errors.Join(handlers.SQL(reg, "A", "select 1"), handlers.SQLWith(reg, "B", []string{"select 1"}, handlers.WithDoc("asks"))); err != nil {
		t.Error(err)
	}
	wantText(t, text(handlers.SQL(reg, "A", "select 1")), "registered twice")
}
