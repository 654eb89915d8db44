package handlers

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// Option says more about the handler of one event type, or, given to New, about
// all handlers of a registry that do not say otherwise.
type Option struct {
	name    string
	forms   []Form // that it fits; nil: all
	perType bool   // has no meaning for a registry
	check   func() error
	apply   func(e *Entry) error
}

// WithCodec sets what decodes payloads. Default JSON{}. Handlers that take the
// payload as it came, those of SQL included, have no use for one.
func WithCodec(c Codec) Option {
	return Option{name: "WithCodec", check: func() error {
		if isNil(c) {
			return errors.New("the codec is nil")
		}
		return nil
	}, apply: func(e *Entry) error { e.payload.codec = c; return nil }}
}

// WithRetry sets when failed events of the type run again.
func WithRetry(policy Retry) Option {
	return Option{name: "WithRetry", check: policy.check,
		apply: func(e *Entry) error { e.Retry = &policy; return nil }}
}

// WithIsolation runs the events of the type in transactions of that isolation
// level. Default pgx.ReadCommitted. Serialization failures run again and use up
// no attempt.
func WithIsolation(level pgx.TxIsoLevel) Option {
	return Option{name: "WithIsolation", check: func() error {
		known := []pgx.TxIsoLevel{pgx.ReadUncommitted, pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}
		if !slices.Contains(known, level) {
			return fmt.Errorf("%q is no isolation level; use a constant of pgx, such as pgx.Serializable", level)
		}
		return nil
	}, apply: func(e *Entry) error { e.Isolation = level; return nil }}
}

// WithTimeout gives each call of the handler, its middleware included, and each
// of its statements at most d, in place of the processor's handler time-out: less
// than that or more. Queued handlers have no use for it: their statements run when
// they have returned.
func WithTimeout(d time.Duration) Option {
	return Option{name: "WithTimeout", forms: []Form{Direct, Batched}, check: func() error {
		if d < time.Millisecond {
			return fmt.Errorf("%s is too short; it must be at least 1ms", d)
		}
		return nil
	}, apply: func(e *Entry) error { e.Timeout = d; return nil }}
}

// WithOwnTransaction runs each event of the type in a transaction that it shares
// with no other, neither with its neighbours in the lane nor with other lanes. It is
// for handlers that call other systems: an event beside it that fails then has no
// call made again, a slow answer holds up its own lane alone, and what is locked
// meanwhile is that lane.
func WithOwnTransaction() Option {
	return Option{name: "WithOwnTransaction", forms: []Form{Direct},
		apply: func(e *Entry) error { e.OwnTransaction = true; return nil }}
}

// WithMiddleware wraps the handler of the type in middleware, within that of the
// registry; the first is the outermost.
func WithMiddleware(middleware ...Middleware) Option {
	return Option{name: "WithMiddleware", perType: true, check: func() error {
		if slices.ContainsFunc(middleware, func(m Middleware) bool { return m == nil }) {
			return errors.New("a middleware is nil")
		}
		return nil
	}, apply: func(e *Entry) error { e.middleware = append(e.middleware, middleware...); return nil }}
}

// WithValidation refuses events whose data the function answers with an error:
// the lane is stuck at once. T is as for DataOf; one that is not the handler's data
// is a mistake that panics at start-up. Validate is the same for a whole registry.
func WithValidation[T any](valid func(data T) error) Option {
	return Option{name: "WithValidation", perType: true, check: func() error {
		if valid == nil {
			return errors.New("the function is nil")
		}
		return nil
	}, apply: func(e *Entry) error {
		if !holds[T](e.payload.data) {
			return fmt.Errorf("it checks %s, but the handler takes %s", reflect.TypeFor[T](), e.payload.data)
		}
		e.middleware = append(e.middleware, Validate(valid))
		return nil
	}}
}

// WithDoc says in a sentence what the handler does, for List.
func WithDoc(sentence string) Option {
	return Option{name: "WithDoc", perType: true,
		apply: func(e *Entry) error { e.Doc = sentence; return nil }}
}

// WithMax bounds the events of one call of an OnBatch handler. Without it the
// processor's Batch is the limit.
func WithMax(n int) Option {
	return Option{name: "WithMax", perType: true, forms: []Form{Batched}, check: func() error {
		if n < 1 {
			return fmt.Errorf("%d is too few; it must be at least 1", n)
		}
		return nil
	}, apply: func(e *Entry) error { e.Max = n; return nil }}
}

// WithVersions brings events of older versions up to date before the handler
// gets them. The steps lead from version 1 to 2, from 2 to 3, and so on; the
// handler takes the version that the last one leads to. An event of a newer
// version makes its lane stuck.
func WithVersions(version VersionOf, steps ...Step) Option {
	return Option{name: "WithVersions", perType: true, check: func() error {
		if version == nil {
			return errors.New("the function that reads the version is nil")
		}
		return nil
	}, apply: func(e *Entry) error {
		e.payload.version, e.payload.steps = version, steps
		return nil
	}}
}

// set applies the registry's options and then the type's own.
func (e *Entry) set(defaults, own []Option) error {
	for _, o := range defaults {
		if o.fits(e.Form) {
			if err := o.apply(e); err != nil {
				return fmt.Errorf("%s of New, on event type %q: %w", o.name, e.Type, err)
			}
		}
	}
	for _, o := range own {
		if err := o.on(e); err != nil {
			return err
		}
	}
	return e.check()
}

func (o Option) fits(form Form) bool { return o.forms == nil || slices.Contains(o.forms, form) }

// on applies an option that was given for the type.
func (o Option) on(e *Entry) error {
	if o.apply == nil {
		return fmt.Errorf("event type %q has an empty Option; make it with one of the functions of this package", e.Type)
	}
	if !o.fits(e.Form) {
		return fmt.Errorf("%s does not fit event type %q, whose handler is %s; it is for handlers that are %s", o.name, e.Type, e.Form, list(o.forms))
	}
	if o.name == "WithCodec" && isRaw(e.payload.data) {
		return fmt.Errorf("WithCodec does not fit event type %q, whose handler takes the payload as it came", e.Type)
	}
	err := o.valid()
	if err == nil {
		err = o.apply(e)
	}
	if err != nil {
		return fmt.Errorf("%s on event type %q: %w", o.name, e.Type, err)
	}
	return nil
}

func (o Option) valid() error {
	if o.check == nil {
		return nil
	}
	return o.check()
}

// forRegistry says why the option cannot be given to New.
func (o Option) forRegistry() error {
	switch {
	case o.apply == nil:
		return errors.New("New was given an empty Option; make it with one of the functions of this package")
	case o.perType:
		return fmt.Errorf("%s is for one event type: give it to On, OnQueue, OnBatch or SQLWith, not to New", o.name)
	}
	if err := o.valid(); err != nil {
		return fmt.Errorf("%s of New: %w", o.name, err)
	}
	return nil
}

func list(forms []Form) string {
	text := ""
	for i, f := range forms {
		if i > 0 {
			text += " or "
		}
		text += f.String()
	}
	return text
}
