package dev

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/internal/broker"
)

// Topics of the sample shop.
const (
	OrdersTopic   = "shop.orders"
	PaymentsTopic = "shop.payments"
)

const partitions = 3

// Topics are the topics of the sample shop with their partitions.
func Topics() map[string]int32 {
	return map[string]int32{OrdersTopic: partitions, PaymentsTopic: partitions}
}

// Event is one event of the sample shop: what its producer sends.
type Event struct {
	EventID   string `json:"eventId"`
	EventType string `json:"eventType"`
	OrderID   string `json:"orderId,omitempty"`
	PaymentID string `json:"paymentId,omitempty"`
	Version   int    `json:"version"` // counts the aggregate's events from 1

	Customer    string `json:"customer,omitempty"`
	SKU         string `json:"sku,omitempty"`
	Quantity    int    `json:"quantity,omitempty"`
	AmountCents int64  `json:"amountCents,omitempty"`
	Carrier     string `json:"carrier,omitempty"`

	// FailTimes has the handler fail that often before it succeeds.
	FailTimes int `json:"failTimes,omitempty"`
}

// Aggregate is the id of the order or the payment.
func (e *Event) Aggregate() string { return e.OrderID + e.PaymentID }

// record is the event on its way to the broker.
func (e *Event) record() *inbox.Record {
	value, err := json.Marshal(e)
	if err != nil {
		panic(err) // texts and numbers always encode
	}
	topic := OrdersTopic
	if e.PaymentID != "" {
		topic = PaymentsTopic
	}
	return &inbox.Record{
		Key: []byte(e.Aggregate()), Value: value,
		Headers: []inbox.Header{{Name: "id", Value: []byte(e.EventID)}, {Name: "eventType", Value: []byte(e.EventType)}},
		Source:  inbox.Source{Topic: topic, Partition: broker.ByKey},
	}
}

// Stream makes the events of the sample shop, without end and the same for the
// same seed and width. Some orders and payments are open at a time, and a random
// one of them goes on.
type Stream struct {
	rng    *rand.Rand
	open   []*life
	opened [2]int // orders and payments so far

	// Flaky and Never are the numbers of the two payments that fail: one has an
	// event that fails twice, the other one that never succeeds.
	Flaky, Never int
}

// life is one order or payment that is open.
type life struct {
	payment  bool
	number   int
	version  int
	length   int // in events
	captured int64
}

// NewStream begins a stream for about n events; 0: for many.
func NewStream(seed uint64, n int) *Stream {
	s := &Stream{rng: rand.New(rand.NewPCG(seed, 0)), Flaky: 17, Never: 42}
	width := 40
	if n > 0 && n < 1000 {
		s.Flaky, s.Never = 1, 2
		width = max(4, n/25)
	}
	for i := range width {
		s.open = append(s.open, s.begin(i%2 == 1))
	}
	return s
}

func (s *Stream) begin(payment bool) *life {
	kind := 0
	if payment {
		kind = 1
	}
	s.opened[kind]++
	l := &life{payment: payment, number: s.opened[kind], length: 5 + s.rng.IntN(7)}
	if payment && (l.number == s.Flaky || l.number == s.Never) {
		l.length = 9
	}
	return l
}

// Next is the next event.
func (s *Stream) Next() *Event {
	i := s.rng.IntN(len(s.open))
	l := s.open[i]
	l.version++
	if l.version == l.length {
		s.open[i] = s.begin(l.payment)
	}
	if l.payment {
		return s.payment(l)
	}
	return s.order(l)
}

func (s *Stream) order(l *life) *Event {
	id := fmt.Sprintf("order-%03d", l.number)
	e := &Event{EventID: fmt.Sprintf("%s-%d", id, l.version), OrderID: id, Version: l.version}
	switch l.version {
	case 1:
		e.EventType, e.Customer = OrderPlaced, fmt.Sprintf("customer-%02d", s.rng.IntN(60))
	case l.length:
		e.EventType, e.Carrier = OrderShipped, []string{"by bike", "by train", "by ship"}[s.rng.IntN(3)]
	default:
		e.EventType, e.Quantity = OrderItemAdded, 1+s.rng.IntN(3)
		e.SKU, e.AmountCents = fmt.Sprintf("sku-%03d", s.rng.IntN(200)), 100*(1+s.rng.Int64N(90))
	}
	return e
}

func (s *Stream) payment(l *life) *Event {
	id := fmt.Sprintf("payment-%03d", l.number)
	e := &Event{EventID: fmt.Sprintf("%s-%d", id, l.version), PaymentID: id, Version: l.version}
	amount := 100 * (1 + s.rng.Int64N(50))
	switch {
	case l.version == 1:
		e.EventType, e.Customer, e.AmountCents = PaymentAuthorized, fmt.Sprintf("customer-%02d", s.rng.IntN(60)), 1_000_000
	case l.number == s.Never && l.version == 3:
		e.EventType, e.AmountCents = PaymentRefunded, l.captured+9_900 // more than there is
	case l.version == l.length:
		e.EventType, e.AmountCents = PaymentRefunded, min(amount, l.captured)
	default:
		e.EventType, e.AmountCents = PaymentCaptured, amount
		l.captured += amount
		if l.number == s.Flaky && l.version == 2 {
			e.FailTimes = 2
		}
	}
	return e
}
