package handlers

import (
	"context"
	"errors"
	"fmt"
	"reflect"
)

// Request is what a handler would send to another system, as a dry run shows it.
type Request struct {
	// Method and URL say what is asked of whom, such as POST and an http URL.
	Method, URL string
	// Headers go along, in this order. Secrets are not among them.
	Headers []RequestHeader
	// Body is sent as it is.
	Body []byte
}

// RequestHeader is one header of a Request.
type RequestHeader struct{ Name, Value string }

// ErrNoRequest is returned by Entry.Rehearse for a handler that did not say what
// it sends, and for an event that its middleware kept from it.
var ErrNoRequest = errors.New("there is no request to show")

// WithRequest says what the handler of the type sends to another system. A dry run
// then shows that and does not run the handler, so that nothing is sent. T is the
// type of the handler's data. The function must send nothing, and leave secrets
// out of what it answers.
func WithRequest[T any](request func(ctx context.Context, e Event[T]) (Request, error)) Option {
	return Option{name: "WithRequest", perType: true, forms: []Form{Direct}, check: func() error {
		if request == nil {
			return errors.New("the function is nil")
		}
		return nil
	}, apply: func(e *Entry) error {
		if t := reflect.TypeFor[T](); t != e.payload.data {
			return fmt.Errorf("it takes %s, but the handler takes %s", t, e.payload.data)
		}
		e.request = func(ctx context.Context, call *Call) (Request, error) {
			event, err := eventOf[T](e.payload, call)
			if err != nil {
				return Request{}, err
			}
			return request(ctx, *event)
		}
		return nil
	}}
}

// SaysRequest reports whether the handler said what it sends; see WithRequest.
func (e *Entry) SaysRequest() bool { return e.request != nil }

// Rehearse is Handle for a dry run of a handler that said what it sends: all of
// its middleware runs, and in the handler's place what says the request. An error
// is the outcome of the call, or ErrNoRequest.
func (e *Entry) Rehearse(ctx context.Context, call *Call) (*Request, error) {
	if e.request == nil {
		return nil, ErrNoRequest
	}
	var said *Request
	// A chain of its own, so that no middleware, whatever it does with context
	// and call, comes to the handler.
	rehearse := e.chain(func(ctx context.Context, call *Call) error {
		request, err := e.request(ctx, call)
		if err == nil {
			said = &request
		}
		return err
	})
	call.entry = e
	err := rehearse(context.WithValue(ctx, callKey{}, call), call)
	if err == nil && said == nil {
		err = ErrNoRequest
	}
	return said, err
}
