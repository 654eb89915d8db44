// Package jsonformat turns records into events by rules that say where each
// field is found: in a header, in the key, or at a path of a JSON value.
//
// # Words
//
// A rule is one place to look:
//
//   - "header:NAME", a header;
//   - "ce:ATTRIBUTE", an attribute of a CloudEvent, which is the header that it is
//     in binary mode, ce_ATTRIBUTE;
//   - "key";
//   - a path such as "$.order.items[0].id". A path that goes on where the value
//     has a string goes on inside of it, if that is JSON;
//   - "topic-partition-offset", for the event's id alone: where the record is in
//     Kafka. See ByOffset for what that costs;
//   - "tombstone:TYPE", for the event's type alone: TYPE if the record has no
//     value.
//
// A field has a list of rules, and the first one that finds something wins. A
// rule finds nothing if its place is missing, empty or JSON null; the next one is
// tried. A rule that finds something unusable (an object or a list, a NUL, bytes
// that are no UTF-8) refuses the record: to go on would take another value for
// the identity than the one that was meant.
//
// A format says what a record's value must be:
//
//   - json: JSON, or the record is refused;
//   - raw: anything, and fields come from the key and the headers alone;
//   - auto: the first of the formats given in Config.Before that recognizes
//     the record, else json where the value parses, else raw.
//
// # What is not obvious
//
// Values are taken as their JSON text, so a number of a hundred digits keeps
// them all, and 1.0 and 1 are two different ids. Strings are unescaped; half of
// a surrogate pair has no UTF-8 form and is refused, because replacing it would
// make one id of two.
//
// Of an object's keys that repeat, the last one counts, with all that is below
// it. That is what PostgreSQL's jsonb, encoding/json, JavaScript and Python do,
// so a handler sees the same value that the event was identified by.
//
// Of headers with the same name the last one counts, as in Kafka's own
// Headers.lastHeader. Names are compared byte for byte.
//
// The payload is the record's value, byte for byte; nothing is written anew.
// A Decoder is immutable, starts no goroutine and may be used from several.
package jsonformat
