package handlers_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/inbox"
)

// strictCodec decodes into nothing but a *protoPaid, and says so.
type strictCodec struct{ protoCodec }

func (strictCodec) CheckData(into any) error {
	if _, ok := into.(*protoPaid); !ok {
		return fmt.Errorf("%T is no message of Protocol Buffers", into)
	}
	return nil
}

// Names and data of which no event ever gets to the handler, and what makes no
// handler.
func TestMistakesOfNamesAndData(t *testing.T) {
	t.Parallel()
	type registry = *handlers.Registry
	fromPaid := handlers.Upcast(func(handlers.Event[orderPaid]) (*protoPaid, error) { return nil, errors.New("") })
	for name, tc := range map[string]struct {
		register func(r registry)
		want     string
	}{
		"NUL in a type":         {func(r registry) { handlers.On(r, "A\x00", done[orderPaid]) }, "no event can have the type \"A\\x00\": "},
		"type that is no text":  {func(r registry) { r.Ignore("A\xff") }, "no event can have the type"},
		"alias that is no text": {func(r registry) { handlers.Alias(r, "A\xff", "B") }, "no event can have the type"},
		"nil Ignore":            {func(registry) { registry(nil).Ignore("A") }, "the registry for ignored types is nil"},

		"the event as data":      {func(r registry) { handlers.On(r, "A", done[handlers.Event[orderPaid]]) }, "is the event, of which it gets the payload alone"},
		"a message as data":      {func(r registry) { handlers.On(r, "A", done[*handlers.Message]) }, "*handlers.Message is the event"},
		"the stored event":       {func(r registry) { handlers.On(r, "A", done[inbox.Event]) }, "inbox.Event is the event"},
		"data of another codec":  {func(r registry) { handlers.On(r, "A", done[orderPaid], handlers.WithCodec(strictCodec{})) }, `event type "A": *handlers_test.orderPaid is no message of Protocol Buffers`},
		"nil pointer of a codec": {func(r registry) { handlers.On(r, "A", done[orderPaid], handlers.WithCodec((*strictCodec)(nil))) }, "the codec is nil"},
		"older data of another codec": {func(r registry) {
			handlers.On(r, "A", done[*protoPaid], handlers.WithCodec(strictCodec{}), handlers.WithVersions(handlers.VersionHeader("v", 1), fromPaid))
		}, "is no message of Protocol Buffers"},
		"nil pointer for a step": {func(registry) { fromPaid.From((*strictCodec)(nil)) }, "codec of a Step is nil"},
		"version of no header":   {func(registry) { handlers.VersionHeader("", 1) }, "the name of a header"},
		"version of no field":    {func(registry) { handlers.VersionField("", 1) }, "the name of a field"},

		"nothing out of a middleware": {func(r registry) {
			handlers.On(r, "A", done[orderPaid])
			r.Use(handlers.Recover(), func(handlers.Handler) handlers.Handler { return nil })
			r.Seal()
		}, `a middleware of event type "A" made a nil handler`},
		"seal of nothing": {func(registry) { new(handlers.Registry).Seal() }, "make one with handlers.New()"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantText(t, panics(func() { tc.register(handlers.New()) }), tc.want)
		})
	}
	wantText(t, text(new(handlers.Registry).Check()), "make one with handlers.New()")
	reg := handlers.New(handlers.WithCodec(strictCodec{}))
	handlers.On(reg, "fits", done[*protoPaid])
	handlers.On(reg, "fits too", done[protoPaid])
	handlers.On(reg, "has no use for it", done[[]byte])
}
