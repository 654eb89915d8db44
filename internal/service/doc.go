// Package service puts the parts of a running inboxd together: the Kafka source,
// the inbox and the lanes, with the handlers of a registry, as a configuration
// says. The commands serve and dev both run a Service.
//
// # Goroutines
//
// Run owns four and returns after they ended: the source's, the processor's, the
// reporter's, which logs every ten seconds what happened, and that of the notes,
// which writes into the database every few seconds how far the source is. When
// the context ends, source and processor stop side by side; each bounds the time
// it takes.
package service
