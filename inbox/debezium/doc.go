// Package debezium turns records that Debezium wrote into events: those of its
// outbox event router, and plain change events of tables.
//
//	d, err := debezium.New(debezium.Config{Outbox: rules, Changes: changes})
//
// # Words
//
// Kafka Connect writes keys, values and headers with a converter. Its JSON
// converter writes a text as a JSON string, and wraps everything in an envelope,
// {"schema": …, "payload": …}, unless it is told not to; other converters write
// texts and bytes as they are. To unwrap is to take away what the converter added.
//
// An outbox record is unwrapped and then decoded by Config.Outbox, as if its
// producer had written it without Kafka Connect: the key is the aggregate's id,
// the header id the event's. The payload is the unwrapped value: JSON inside of
// a JSON string is that JSON, the payload of an envelope is its exact text, bytes
// in base64 are those bytes (if the envelope says that they are bytes), and a
// value that no converter wrapped stays as it is.
//
// A change event has op and source. Its payload is the unwrapped value, with
// before, after, op and source, byte for byte, and
//
//   - its aggregate is found by Config.Changes in the record with the key
//     unwrapped: the value of its single field, or, of several, their canonical
//     JSON (see rawjson: names in order, no space, numbers as they are written);
//   - its type is the table's or collection's name and what happened:
//     orders.created, orders.updated, orders.deleted, orders.snapshot for a row
//     that a snapshot read, and PREFIX.message for PostgreSQL's logical messages;
//   - its id is made of its position in the source, see below;
//   - its time is what Config.Changes finds.
//
// # Identity
//
// Debezium sends a change again after a crash, with the same position in the
// database's log. The id of a change event is a path of
//
//	connector/name/database/schema/table/POSITION/op/digest
//
// where POSITION is, by connector,
//
//	postgresql        lsn/txId
//	mysql, mariadb    server_id/gtid/file/pos/row
//	sqlserver         commit_lsn/change_lsn/event_serial_no
//	oracle            scn/txId/rs_id/ssn
//	db2               commit_lsn/change_lsn
//	mongodb           ts_ms/ord
//
// with slashes and percent signs inside of a part written as %2F and %25, and
// missing parts left empty. The digest is one of the key and of the row before and
// after: several rows may share a position (a COPY, a multi-row insert, a
// snapshot, a transaction in MongoDB). Rows without a key that are equal in all
// columns cannot be told apart by it, so a change event without a key is refused,
// unless MySQL, MariaDB or SQL Server streamed it, which number rows one by one.
//
// A change event without a position, or of another connector, has the id that
// Config.Changes finds if Config.ByOffset is set, and is refused otherwise.
//
// # What is not obvious
//
// Heartbeats and the records of transactions' begins and ends say nothing about
// any row: they are inbox.ErrIgnored. Truncations and changes of schemas concern
// more than one aggregate: they are refused, for a person to look at.
//
// A record without a value is a tombstone, whose key is unwrapped and which
// Config.Outbox decodes. Debezium writes one after each deletion of a row unless
// it is told not to, and the deletion itself is the event.
//
// The payload of a change event holds the time at which Debezium processed it, so
// a change that is sent again differs there from the first one, and counts as a
// duplicate with another content.
//
// A Decoder is immutable, starts no goroutine and may be used from several.
package debezium
