// Package kafka reads topics as a member of a consumer group and hands their
// records to a Sink, in the order of each partition, at least once. It commits
// an offset only after the Sink has stored what is before it.
//
//	source, err := kafka.New(kafka.Config{
//		Brokers: []string{"localhost:9092"}, Group: "shop-inbox", Topics: []string{"orders"},
//	}, sink)
//	…
//	return source.Run(ctx) // nil after a clean stop
//
// # Words
//
// A session is one membership of the group, between two rebalances. A claim is a
// partition that a session has. A position is the offset before which everything
// is stored; a mark is what is written beside an offset when it is committed.
//
// # Goroutines
//
//   - Run's own waits for the context to end, then for the stop; one more is
//     made for the stop, so that Run can keep its deadline.
//   - loop joins the group again and again, and runs Setup and Cleanup of each
//     session. It is ended by stop.
//   - watch looks at the topics during a session, and ends it when they change.
//     consume starts it and waits for it.
//   - ConsumeClaim, one for each claim, is called by the client. It only carries
//     records into the queue, and ends with the session.
//   - work, Config.Workers of them, take batches from the queue and call Ingest.
//     commitLoop commits. Setup starts them and Cleanup waits for them, so that
//     no call to Ingest of one session is running when the next one begins.
//   - readErrors reads what the client reports; it ends when its group is closed.
//
// Locks: queue.mu is taken before those of the client (pausing a partition), and
// nothing of ours is called with it held. Source.mu, topics.mu and often.mu
// guard fields and are never held together. meters.mu is taken before those of its
// meters.
//
// # What is not obvious
//
// A Group looks at a group from outside and moves its offsets; it runs nothing.
//
// There are two clients. On the connections of the group's own, a commit would
// wait behind the long poll of a fetch; commits, offsets and metadata go over
// the other one.
//
// The group's client has offsets of its own, which are never committed. They are
// used to tell it where a claim begins: Setup decides that, from the group's
// offsets, the topics' ids and the logs' ends, and moves the client's there.
//
// Topics have ids, and the mark beside an offset holds the one that it was
// committed for. An offset of a topic that was deleted and made again is
// recognized by that, and the new topic is read from its beginning. Until the
// change is seen, at most TopicRefresh, records of the new topic may be stored
// before those at its beginning; they come again in their order, and none is
// skipped.
//
// A partition whose offset is not in the log is stopped, with an error in the
// log and a mark beside its offset. It stays stopped, in whatever process, until
// the offset is set by a person (Group.Move, or any tool): a log that has grown
// past the offset meanwhile would otherwise hide what is missing.
//
// Kafka forgets the offsets of a group that was away for long. What Config.Remembered
// knows counts in their place, if it is surely of the topic that there is now.
//
// The marks that end transactions have offsets, and the client passes over them
// without a word. A partition that ends with them would lag for ever, and be taken
// for one whose records are lost when retention has deleted them. So watch looks
// at what comes next in partitions that have nothing to store, and moves their
// positions past what is no record.
//
// Topics that are chosen by a pattern are found in the list of all topics, which is
// asked for as often as the named ones are. The group is joined anew when one comes
// or goes.
//
// Records are copied out of the client's answers as they come. They would
// otherwise keep whole fetches alive, and what the buffer counts would say little
// about the memory that is used.
//
// The client unpacks whole answers, and says how large they are when it is too late.
// So the connections over which records come change its requests, see meters: they
// ask for no more than will fit, judging by the answers before.
//
// TLS is done by the dialer, so that certificates and authorities are read for
// each connection. The client asks for the secrets of SCRAM and OAUTHBEARER each
// time as well; the password of PLAIN is fixed in its configuration, so a new
// password takes new clients, which renew makes between two sessions.
//
// A Sink that fails keeps its session: heartbeats go on, partitions that fill
// the buffer are paused, and batches are tried again with backoff. A partition
// that failed is tried alone, so that it cannot make others fail.
//
// A broker that hangs answers no request, and the client waits for it without a
// context. All connections are made by one dialer, and a stop whose time is up
// cuts them, which ends every wait.
package kafka
