package config

import (
	"regexp"
	"slices"
	"strings"

	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/v2"
)

// prefix begins the name of every variable that is the program's own.
const prefix = "INBOXD_"

// otherVariables are the program's own and no settings, or those that shells set
// for its completion; a name that ends in an underscore stands for all that begin
// with it.
var otherVariables = []string{
	"INBOXD_CONFIG", "INBOXD_LOG_LEVEL", "INBOXD_LOG_FORMAT", "INBOXD_POSTGRES_BIN", "INBOXD_TEST_", "INBOXD_DEV_",
	"INBOXD_ACTIVE_HELP", "INBOXD_COMPLETION_",
}

// serviceVariable matches what Kubernetes sets in every pod for a service
// whose name begins with inboxd.
var serviceVariable = regexp.MustCompile(
	`^INBOXD_(.+_)?(SERVICE_HOST=.*|SERVICE_PORT(_.+)?=\d+|PORT=(tcp|udp|sctp)://.*|PORT_\d+_(TCP|UDP|SCTP)(_PROTO|_PORT|_ADDR)?=.*)$`)

// environment is the layer of INBOXD_ variables.
func (l *loader) environment() koanf.Provider {
	return env.Provider(".", env.Opt{
		Prefix:        prefix,
		EnvironFunc:   l.ownVariables,
		TransformFunc: l.variable,
	})
}

// ownVariables are those that should be settings, in an order that does not
// change from call to call.
func (l *loader) ownVariables() []string {
	own := slices.DeleteFunc(slices.Clone(l.opts.Environ), func(entry string) bool {
		name, value, _ := strings.Cut(entry, "=")
		return !strings.HasPrefix(name, prefix) || value == "" || isOther(name) || serviceVariable.MatchString(entry)
	})
	slices.Sort(own)
	return own
}

func isOther(name string) bool {
	return slices.ContainsFunc(otherVariables, func(other string) bool {
		return name == other || strings.HasSuffix(other, "_") && strings.HasPrefix(name, other)
	})
}

// variable turns one variable into a key and its value.
func (l *loader) variable(name, value string) (string, any) {
	for _, k := range knownKeys {
		if k.variable() != name {
			continue
		}
		v, wrong := k.parse(value)
		if wrong != "" {
			l.problems.add(name, k.path, "%s", wrong)
			return "", nil
		}
		return k.path, v
	}
	l.unknownVariable(name)
	return "", nil
}

func (l *loader) unknownVariable(name string) {
	if strings.HasPrefix(name, variableOf(handlersKey)) {
		l.problems.add(name, "", "handlers come from the configuration file only")
		return
	}
	known := slices.DeleteFunc(slices.Clone(otherVariables), func(s string) bool { return strings.HasSuffix(s, "_") })
	for _, k := range knownKeys {
		known = append(known, k.variable())
	}
	l.problems.add(name, "", "no setting has this name; the nearest known variable is %s", nearest(name, known...))
}

// lookup finds a variable that is set and not empty.
func (l *loader) lookup(name string) string {
	// The last one wins, as in the operating system's own list.
	for _, entry := range slices.Backward(l.opts.Environ) {
		if n, v, _ := strings.Cut(entry, "="); n == name {
			return v
		}
	}
	return ""
}
