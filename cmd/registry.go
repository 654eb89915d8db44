package cmd

import (
	"fmt"
	"maps"
	"slices"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/internal/config"
)

// registerConfigured adds the handlers of the configuration to those in Go
// that the process was made with. It is called once a run, connects to nothing
// and reads no file. Its error is a *config.Error.
func (a *app) registerConfigured(c *config.Config) error {
	var problems []error
	refuse := func(eventType, format string, args ...any) {
		problems = append(problems, &config.Problem{
			Where: c.File, Key: "handlers." + eventType, Text: fmt.Sprintf(format, args...),
		})
	}
	for _, eventType := range slices.Sorted(maps.Keys(c.Handlers)) {
		h := c.Handlers[eventType]
		switch {
		case h.Retry != nil && !h.Ignore && len(h.SQL) == 0 && h.Webhook == nil:
			if !a.reg.Has(eventType) {
				refuse(eventType, "handlers.%s has a retry policy, but no sql, no webhook and no handler in Go: say what its handler is", eventType)
			}
		case a.reg.Has(eventType):
			refuse(eventType, "handlers.%s is configured, but this program has a handler in Go for that event type: remove one of them", eventType)
		case h.Ignore:
			a.reg.Ignore(eventType)
		case h.Webhook != nil:
			if err := a.registerWebhook(eventType, h.Webhook); err != nil {
				refuse(eventType, "handlers.%s.webhook: %s", eventType, err)
			}
		default:
			if err := handlers.SQL(a.reg, eventType, h.SQL...); err != nil {
				refuse(eventType, "%s", err)
			}
		}
	}
	if len(problems) > 0 {
		return &config.Error{Problems: problems}
	}
	return nil
}
