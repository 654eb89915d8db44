// Package doctor looks at a deployment and says what is not as it should be, and
// what to do about it: the database and how sessions reach it, the schema and
// the privileges on it, the state of lanes and tables, webhooks, Kafka.
//
//	report := doctor.Examine(ctx, doctor.Options{Pool: pool, Config: cfg, Registry: reg})
//
// A check is a question with a name and one answer. It changes nothing, has a
// time limit of its own, and looks only where it costs little: what grows with
// the tables is counted by an index or taken from the newest or oldest of them.
// A check that may not look, or takes too long, is a warning that says so.
//
// The checks run one after the other on connections of the pool; the package has
// no goroutine that outlives a call.
package doctor
