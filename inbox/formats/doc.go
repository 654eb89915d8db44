// Package formats puts the decoders of the packages beside it together, as one
// set of rules says: New returns the decoder for a format by its name.
//
// The rules are those of package jsonformat, and one list serves all formats. A
// list that is the default, or empty, lets each format use what it knows better:
//
//	                 json, raw, outbox records    CloudEvents              change events
//	event_id         the list                     source and id, always    position, always
//	aggregate_id     the list                     ce:partitionkey,         key
//	                                              ce:subject, key
//	event_type       the list, and for outbox     type, always             table and op, always
//	                 records header:type
//	sequence         the list                     ce:sequence, if it is    none
//	                                              an integer
//	occurred_at      the list, else the           time                     source.ts_ms, ts_ms
//	                 record's time
//
// A list that is another than the default is taken at its word: it is used in
// every format instead of what stands in the table, with two exceptions. What
// says "always" is not changed by it. And where the lists for sequence and
// occurred_at find nothing, what stands in the table is looked for, because these
// two are optional. Paths look into the data of a CloudEvent, into the payload of
// an outbox record, and into a change event with before and after.
//
// The rule topic-partition-offset for event_id also identifies change events that
// have no position of their own. Under auto, the first of CloudEvents, Debezium,
// json and raw whose marks a record bears decodes it.
package formats
