package handlers

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Description is what can be said of a registered event type, for people and
// pages. Fields that were not set are zero.
type Description struct {
	Type string
	Form Form
	// Doc is the sentence of WithDoc.
	Doc string
	// Data is the Go type that the handler takes, such as "shop.OrderPaid".
	Data string
	// Statements are those of an SQL handler.
	Statements []string
	// Aliases are the older types that run this handler, in order.
	Aliases []string
	// Versions is how many versions of the data are understood; 1 without
	// WithVersions, 0 for an ignored type.
	Versions int
	// Max, Single, Retry, Isolation, Timeout and OwnTransaction are as the
	// options say.
	Max            int
	Single         bool
	Retry          *Retry
	Isolation      string
	Timeout        time.Duration
	OwnTransaction bool
	// Request: a dry run shows what the handler would send, and sends nothing.
	Request bool
}

// List describes what is registered, ordered by type; aliases stand with what
// they are aliases of.
func (r *Registry) List() []Description {
	aliases := map[string][]string{}
	for _, older := range slices.Sorted(maps.Keys(r.aliases)) {
		if e, _, err := r.resolve(older); err == nil {
			aliases[e.Type] = append(aliases[e.Type], older)
		}
	}
	list := make([]Description, 0, len(r.entries))
	for _, e := range r.entries {
		d := Description{
			Type: e.Type, Form: e.Form, Doc: e.Doc, Statements: slices.Clone(e.statements), Aliases: aliases[e.Type],
			Max: e.Max, Single: e.single != nil, Isolation: string(e.Isolation), Timeout: e.Timeout,
			OwnTransaction: e.OwnTransaction, Request: e.SaysRequest(),
		}
		if e.Retry != nil {
			policy := *e.Retry
			d.Retry = &policy
		}
		if e.payload != nil {
			d.Data, d.Versions = e.payload.data.String(), len(e.payload.steps)+1
		}
		list = append(list, d)
	}
	slices.SortFunc(list, func(a, b Description) int { return strings.Compare(a.Type, b.Type) })
	return list
}
