// Package postgres runs a PostgreSQL server of its own for development and tests.
// It listens on 127.0.0.1 only and asks everyone for a password.
//
// # Words
//
//   - binaries: a directory with initdb and postgres, installed on the machine or downloaded;
//   - directory: what Config.Dir names. It holds data (the cluster), password, postgres.log and
//     lock, the file whose lock tells that a process owns the server;
//   - owner: the process that started the server and stops it. One at a time: a second [Start]
//     fails with [ErrInUse], [Attach] uses the server without owning it, [Open] does what fits;
//   - account: the user the server runs as when the owner is root, because initdb and postgres
//     refuse to run as root. It is the user whose the directory is, else postgres, else nobody.
//     The account has to reach the directory: one below a home that is closed to others is
//     refused with a sentence. [DefaultDir] always fits.
//
// # Which binaries
//
// The environment variable INBOXD_POSTGRES_BIN chooses: a directory, "download" for the newest
// release that can be downloaded, "download:16" for the newest of one major version. Without it
// the newest installed one is taken, PostgreSQL 14 at least, or, for data that exists, the one
// that made the data; with none installed, it is downloaded once into the user's cache directory
// (for root into /var/cache/inboxd, where the account can read it).
//
// # For tests
//
// Config.Fast and Config.Reuse. Creating a database means creating some 300 files and a cluster
// means 900, so such servers keep their data in memory where that can be (Linux, /dev/shm with 4 GiB
// free, TMPDIR not set), and leave it there for the next server instead of making it anew: tens
// of milliseconds in place of a second. What is left takes some 50 MB for each server that ran at once;
// it may be deleted whenever no test runs.
//
// # What ends the server
//
// [Server.Stop]. The server is in a process group of its own, so an interrupt typed at a terminal
// reaches the owner alone. When the owner dies without a word, Linux tells the server, which shuts
// down; elsewhere it lives on until the next [Start] on its directory, which stops it and starts
// anew. Temporary directories of dead owners are removed by a later Start.
//
// # Goroutines
//
// One for each running server. It is bound to the thread that started the server (Linux ends the
// server with that thread, not with the process), waits for its end, and is waited for by Stop.
package postgres
