package config

import (
	"fmt"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"
)

// HandlerRetry is the policy of one event type. What is zero is as for the lanes.
type HandlerRetry struct {
	Initial, Max       time.Duration
	Multiplier, Jitter float64 // Jitter below 0: none
	Attempts           int
	Never              bool // not tried again at all
}

const retryForms = "never or {initial, max, multiplier, jitter, attempts}"

// retry reads the policy of one event type; ok is false if it had a problem.
func (d *document) retry(path string, n *yaml.Node) (_ *HandlerRetry, ok bool) {
	if n.Kind == yaml.ScalarNode && n.Value == "never" {
		return &HandlerRetry{Never: true}, true
	}
	if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
		d.problem(n, path, "%s is %s, but it must be %s", path, describe(n), retryForms)
		return nil, false
	}
	r, ok := &HandlerRetry{}, true
	d.pairs(n, path+".", func(name, value *yaml.Node) {
		value = resolve(value)
		set, known := retryFields[name.Value]
		if !known {
			d.unknownIn(name, path, "initial", "max", "multiplier", "jitter", "attempts")
			ok = false
			return
		}
		if wanted := set(r, value.Value); wanted != "" {
			d.problem(value, path+"."+name.Value, "%s.%s is %s, but it must be %s", path, name.Value, describe(value), wanted)
			ok = false
		}
	})
	if r.Initial > 0 && r.Max > 0 && r.Max < r.Initial {
		d.problem(n, path, "%s.max is %s, but it must not be less than initial, which is %s", path, formatDuration(r.Max), formatDuration(r.Initial))
		ok = false
	}
	return r, ok
}

// retryFields read one field each, and answer what it must be if it is not.
var retryFields = map[string]func(r *HandlerRetry, s string) string{
	"initial": func(r *HandlerRetry, s string) string { return wait(&r.Initial, s) },
	"max":     func(r *HandlerRetry, s string) string { return wait(&r.Max, s) },
	"multiplier": func(r *HandlerRetry, s string) string {
		return ratio(&r.Multiplier, s, 1, 1000)
	},
	"jitter": func(r *HandlerRetry, s string) string {
		wrong := ratio(&r.Jitter, s, 0, 1)
		if wrong == "" && r.Jitter == 0 {
			r.Jitter = -1
		}
		return wrong
	},
	"attempts": func(r *HandlerRetry, s string) string {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return "a whole number, at least 1"
		}
		r.Attempts = n
		return ""
	},
}

func wait(d *time.Duration, s string) string {
	v, err := parseDuration(s)
	if err != nil || v < time.Millisecond {
		return duration.String() + ", and at least 1ms"
	}
	*d = v
	return ""
}

func ratio(f *float64, s string, least, most float64) string {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= least && v <= most) {
		return fmt.Sprintf("a number from %g to %g", least, most)
	}
	*f = v
	return ""
}

func (r *HandlerRetry) node() *yaml.Node {
	if r.Never {
		return valueNode("never")
	}
	n := mapping()
	if r.Initial != 0 {
		add(n, "initial", valueNode(r.Initial))
	}
	if r.Max != 0 {
		add(n, "max", valueNode(r.Max))
	}
	if r.Multiplier != 0 {
		add(n, "multiplier", valueNode(r.Multiplier))
	}
	if r.Jitter != 0 {
		add(n, "jitter", valueNode(max(r.Jitter, 0)))
	}
	if r.Attempts != 0 {
		add(n, "attempts", valueNode(r.Attempts))
	}
	return n
}
