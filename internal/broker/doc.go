// Package broker runs a Kafka-compatible broker inside this process, for
// development and for tests. It listens on loopback only and needs neither
// Java nor a network. It is a fake: it speaks Kafka's protocol, keeps topics,
// groups, offsets and transactions, and survives a restart when it is given a
// directory, but it has no replication and elects nobody.
//
// A Broker owns the goroutines of the fake; Close ends them. A Producer owns
// those of its client; Close ends them too.
package broker
