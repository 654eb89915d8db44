// Package webhook is a built-in handler that sends events to an HTTP endpoint, in
// order within their aggregate.
//
//	hook, err := webhook.New(webhook.Config{URL: "https://shipping.internal/hooks"})
//	…
//	defer hook.Close()
//	hook.On(reg, "OrderShipped")
//
// # The request
//
// POST, with the payload as it came for a body. Content-Type is that of the event's
// header content-type if it has one, else application/json or
// application/octet-stream. Idempotency-Key is the same for every attempt of the
// event, in every process and in a replay. Inboxd-Event-Id, -Event-Type,
// -Aggregate-Id, -Position, -Attempt, -Replay, -Occurred-At and -Received-At say
// the rest; in names, what is no visible ASCII, and " and %, is percent-encoded as
// UTF-8. A trace context that the producer sent goes along as traceparent and
// tracestate.
//
// With Config.Token it has an Authorization header, with Config.Signature the three
// headers of Standard Webhooks: webhook-id, webhook-timestamp, webhook-signature.
// They sign the body, the id and the time, and not the Inboxd headers. A proxy is
// taken from the environment, as net/http has it.
//
// # Answers
//
// Any 2xx is done; the body of the answer is not looked at. 400, 410, 413 and 422
// are the endpoint's verdict on these very bytes: the lane is stuck at once. All
// other answers fail the attempt, redirects included, which are not followed. A
// Retry-After of 408, 425, 429 or a 5xx sets when the next attempt runs, up to an
// hour. An endpoint that no connection can be made to, and a token or a key that
// cannot be read, pause the event type (handlers.Pause), so that no attempts are
// used up; time-outs, connections that
// break off, 502, 503 and 504 count for the breaker that pauses a type when several
// lanes meet them.
//
// # Once, and not once
//
// Each event runs in a transaction of its own. A process that dies between the
// answer and its commit sends the event again, with the same key: the endpoint
// must know keys that it has seen, and answer them as it did before.
//
// # Goroutines
//
// None but those of net/http for connections that are kept open. Close ends the
// idle ones.
package webhook
