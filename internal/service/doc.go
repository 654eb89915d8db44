// Package service puts the parts of a running inboxd together: the Kafka source,
// the inbox and the lanes, with the handlers of a registry, as a configuration
// says. The commands serve and dev both run a Service.
//
// # Goroutines
//
// Run owns three and returns after they ended: the source's, the processor's and
// the reporter's, which logs every ten seconds what happened. When the context
// ends, source and processor stop side by side; each bounds the time it takes.
package service
