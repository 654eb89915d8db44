package inboxtest

import "github.com/inboxd/inboxd/internal/pgtest"

// T is what the kit needs of a *testing.T or *testing.B. Fatalf does not return:
// it ends the test's goroutine.
type T interface {
	Helper()
	Cleanup(f func())
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// URLVariable is the environment variable that names a server to use in place of
// the embedded one, such as postgres://ci@db:5432/postgres. Its user has to be
// allowed to create databases.
const URLVariable = pgtest.URLVariable

// Stop stops the embedded server, if a test of this process has started it. Call
// it after the tests, in TestMain:
//
//	func TestMain(m *testing.M) {
//		status := m.Run()
//		inboxtest.Stop()
//		os.Exit(status)
//	}
//
// It is good manners rather than a need: without it the server ends with the
// process on Linux, and elsewhere the next test process takes it over.
func Stop() error { return pgtest.Stop() }
