package cmd

import (
	"errors"
	"fmt"

	"github.com/inboxd/inboxd/handlers/webhook"
	"github.com/inboxd/inboxd/internal/config"
)

// registerWebhook adds a webhook of the configuration.
func (a *app) registerWebhook(eventType string, w *config.Webhook) error {
	for name, value := range w.Headers {
		if err := webhook.CheckHeader(name, value); err != nil {
			return err
		}
	}
	hook, err := webhook.New(webhook.Config{
		URL: w.URL, Timeout: w.Timeout, Concurrency: w.Concurrency, Headers: w.Headers, CAFile: w.CAFile,
		Token: a.secret(w.TokenFile, w.TokenEnv), TokenHeader: w.TokenHeader,
		Signature: a.secret(w.SecretFile, w.SecretEnv),
	})
	if err != nil {
		return err
	}
	hook.On(a.reg, eventType)
	a.hooks = append(a.hooks, hook)
	return nil
}

// secret is what a file or a variable of the environment holds; nil: neither was
// named.
func (a *app) secret(file, variable string) webhook.Secret {
	switch {
	case file != "":
		return webhook.SecretFile(file)
	case variable != "":
		return func() (string, error) {
			if value := a.getenv(variable); value != "" {
				return value, nil
			}
			return "", fmt.Errorf("the environment variable %s is not set", variable)
		}
	}
	return nil
}

// checkHooks reads the files and variables that webhooks need to make requests.
func (a *app) checkHooks() error {
	var errs []error
	for _, hook := range a.hooks {
		errs = append(errs, hook.Check())
	}
	return errors.Join(errs...)
}

func (a *app) closeHooks() {
	for _, hook := range a.hooks {
		hook.Close()
	}
}
