// Package dev runs inboxd on servers of its own: an embedded PostgreSQL and an
// embedded Kafka broker, in one directory, and a sample shop to look at.
//
// # The directory
//
// It holds one PostgreSQL server with up to three databases, and beside it a
// broker's records for each that lasts:
//
//   - dev, with which the user works: inboxd dev;
//   - shop, with a sample stream that goes on and on: inboxd dev --sample;
//   - sample, made anew for each run of a number of events: inboxd dev --events N.
//     Its broker is in memory.
//
// So a sample run never touches what a user has made. state.json says which
// database the last start used: it is the one that --dev leads to.
//
// # Goroutines
//
// An Instance owns those of its servers; Close ends them. RunSample and Feed have
// none that outlive them.
package dev
