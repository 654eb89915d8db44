// Package bench measures inboxd against what its work costs at least, on one
// server, in one run.
//
// # Words
//
//   - scenario: W1 to W10, and level, which is run by name, one question each; a file a scenario. It gives one or
//     several results, "W1 On" and "W1 sql".
//   - side: what is timed: inboxd's, or the reference's.
//   - reference: the textbook loop (lock, oldest row, handler, flag, commit, a
//     round trip each), pgbench with the handler's statement, COPY, or inboxd
//     itself under an easier load.
//   - round: each side once, one after the other. Rates are medians of rounds, and
//     the ratio is the median of the rounds' ratios.
//   - stage: schemas and tables of one scenario, dropped when it ends.
//
// # The work
//
// An aggregate is an account, and the handler is one UPDATE of that account by
// its primary key. The UPDATE also compares the event's number with that of the
// event before it, and counts what does not follow: accounts alone, without a
// look at inboxd's own tables, show every event that was lost, doubled or out of
// order. See accounts.
//
// # What is timed
//
// Events are stored, and tables vacuumed, before the time begins. It runs from
// the moment when the first lane is read to the commit of the last event. Both
// sides have run events on the same connections before.
//
// # Goroutines
//
// Each side owns those that it starts, and waits for them. W8 and W9 start
// processes, which end with their standard input.
package bench
