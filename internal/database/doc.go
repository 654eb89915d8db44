// Package database opens connections to PostgreSQL the way that inboxd's
// guarantees want them, and says in a sentence why one cannot be opened.
//
// # What a session is given
//
// A dead peer is noticed in seconds rather than in hours, on both sides: the
// client by keep-alive probes and TCP_USER_TIMEOUT, the server by its own
// settings for the session, client_connection_check_interval among them, so that
// the statement of a client that is gone ends and gives up its locks. The server
// settings are set after the connection is made, and not as start-up parameters,
// which connection poolers refuse; a server that does not have one of them goes
// without it.
//
// Two settings that a role or a database may come with would break guarantees and
// are put right: an isolation level other than read committed, and
// synchronous_commit = off, under which a record could be acknowledged and then
// lost. Everything else, target_session_attrs included, is left to the URL.
//
// # Behind a connection pooler
//
// A pooler such as PgBouncer is known by the number that it tells the client for
// the session: the server has another one. In transaction mode the next statement
// may run in another session, and this one be somebody else's; so nothing is set
// in it. Sessions that come with one of those two settings are refused instead,
// and statements are not prepared, unless the URL says how they are run. Which of
// both is the case is known after the first connection; that one does not prepare
// either, and is replaced when it has been used often.
//
// The package starts no goroutine of its own.
package database
