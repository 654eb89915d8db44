//go:build linux

// Command torture runs several inboxd processes under a seeded stream of events and a
// seeded schedule of faults, and then checks from the effects alone what inboxd
// promises: nothing lost, doubled or swapped, no innocent lane held up, nothing
// left behind.
//
//	go build -o bin/inboxd ./cmd/inboxd
//	go run ./internal/torture -duration 10m -seed 7 -inboxd bin/inboxd
//
// It exits with 0 when every promise was kept, with 1 and the evidence when one
// was not, and with 2 when it could not do its work. A run that does not pass
// keeps its directory, with every process's log, and says where it is.
//
// # The world
//
// One PostgreSQL, one broker in a process of its own, and two families of
// processes, each with a schema, a consumer group and a topic: shop, which is the
// inboxd binary with sql handlers from a configuration, and one process of this
// program beside it that has some of the same handlers in Go; and team, which is
// this program as a team's own binary, with handlers in Go of all forms.
//
// A handler appends a row to the table effects: the event, its aggregate and
// position, the producer's own number of the event within the aggregate, and the
// number that the aggregate's balance held before. This table, what the broker
// holds and what the processes' exit codes say are all that the checks go by; the
// tables of inboxd are looked at where a promise is about them.
//
// # Words
//
//   - slot: a place for a process, which comes and goes in it;
//   - final event: one that can never be done; its lane has to be stuck at the end;
//   - fragile event: one that fails until it is repaired;
//   - held: a lane that waits for a reason that the torture made.
//
// # Roles
//
// The variable TORTURE_ROLE makes this program a broker or a team's binary.
//
// # Goroutines
//
// The producer, the repairer, the watcher, one a fault while it lasts, one a
// process that waits for its end, and the spawner: Linux ends the children when
// the thread that started them ends, so one thread starts them all.
package main
