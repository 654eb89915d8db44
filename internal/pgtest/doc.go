// Package pgtest gives tests a real PostgreSQL: a database of its own for every test.
//
// A package that uses it has one line in its tests:
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
// and its tests say what they need:
//
//	url := pgtest.Database(t)    // fresh and empty, dropped at the end of the test
//	pool := pgtest.Pool(t, url)  // closed at the end of the test
//	url := pgtest.Prepared(t, key, prepare) // the same, filled: a copy of a template
//	server := pgtest.Server(t)   // a server of its own, to be killed, restarted, paused
//
// All databases of a test process are on one embedded server (see package postgres), which the
// first test that asks for a database starts and Main stops. INBOXD_TEST_DATABASE_URL names
// another server to use in its place; its user has to be allowed to create databases.
//
// The server is quick rather than safe: it keeps its data in memory where that can be, without fsync,
// and takes over what an earlier test process left, emptied. What was committed survives a kill.
//
// A test that cannot have its server fails. It is never skipped.
//
// Main ends the process with status 1 when goroutines are left after the tests.
package pgtest
