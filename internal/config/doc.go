// Package config reads the configuration of inboxd and says, in whole
// sentences, what is wrong with it.
//
// # Words
//
//   - A key is the dotted path of one setting: "lanes.retry.max". The known
//     keys are the fields of [Config]; there is no second list of them.
//   - A layer is one place that settings come from. A later layer wins over an
//     earlier one, key by key: the defaults, the YAML file, the environment,
//     the command's flags.
//
// # What is not obvious
//
// The environment variable of a key is INBOXD_ and the key in upper case, its
// dots as underscores: INBOXD_LANES_HANDLER_TIMEOUT. Names are looked up among
// the known keys, never split, so that underscores inside a key are safe. An
// empty variable counts as one that is not set. A list is written with commas.
// A variable that names no key is an error, with two exceptions: the
// program's other variables (INBOXD_CONFIG, INBOXD_LOG_LEVEL, …) and those
// that Kubernetes sets in every pod for a service that is called inboxd
// (INBOXD_SERVICE_HOST, INBOXD_PORT_8080_TCP, …).
//
// The database is found in this order: the flag, INBOXD_DATABASE_URL or
// INBOXD_DATABASE_URL_FILE, DATABASE_URL, the file's database.url or
// database.url_file, PGHOST and its like, the default. With PGHOST and its
// like the URL is empty, and the driver itself takes all it needs from PG*
// variables. Whatever a URL leaves out (a password, say) the driver takes
// from them too. database.url and database.url_file are one setting: to give
// both in one layer is an error, and a layer that gives one overrides both of
// the layers below it, their database.direct_url included: it would lead to
// another database.
//
// Nothing in a YAML value is expanded: "$.orderId" and "$1" stay what they are.
//
// The handlers come from the file alone. An event type may hold dots
// ("com.example.order.paid"), so its name is never taken for a path of keys.
//
// A password never comes by flag, where other users of the machine could read
// it, and that of kafka.sasl not in the file either: the environment has it, or a
// file of its own, which is read by who connects and not by this package.
// [Config] hides passwords when it is printed or logged; its fields hold them in
// the clear.
//
// The package starts no goroutine and keeps no state.
package config
