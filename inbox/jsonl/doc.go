// Package jsonl reads events from JSON lines, one event a line:
//
//	{"event_id": "e-1", "aggregate_id": "order-7", "event_type": "OrderPaid", "payload": {"amount": 12}}
//
// and, where there are such, "sequence" (an integer of 64 bits), "occurred_at"
// (RFC 3339, or milliseconds since 1970) and "headers" (an object of names and
// texts, or a list of [name, text] pairs where names repeat).
//
// A Reader splits its input into lines, and a Decoder makes events of them; in
// between they are records whose value is the line, so that one that cannot
// become an event goes to quarantine as it stood.
//
// # What is not obvious
//
// The payload is the JSON text of the payload's value as it stood in the line,
// byte for byte: digits, escapes and spaces included. Without a payload the
// event's is empty. An id may be a text, or a number, true or false, which is
// taken as its JSON text. Of keys that repeat, the last one counts.
//
// The package starts no goroutine. A Decoder may be used from several, a Reader
// from one.
package jsonl
