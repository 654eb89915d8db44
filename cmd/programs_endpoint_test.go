package cmd_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// runEndpoint runs a server for webhooks until it is stopped. Its URL replaces
// ENDPOINT in the template of a configuration. The path says what it answers,
// /200 for example; what it receives is a line each in a file.
func runEndpoint(template, config, received string) error {
	log, err := os.OpenFile(received, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	var mu sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		must(err)
		mu.Lock()
		defer mu.Unlock()
		_, err = fmt.Fprintf(log, "%s %s key=%s type=%s aggregate=%s authorization=%q %s\n", r.Method, r.URL.Path,
			r.Header.Get("Idempotency-Key"), r.Header.Get("Inboxd-Event-Type"), r.Header.Get("Inboxd-Aggregate-Id"), r.Header.Get("Authorization"), body)
		must(err)
		status, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		must(err)
		w.WriteHeader(status)
		fmt.Fprintf(w, "you said %s", r.Header.Get("Authorization"))
	}))
	defer server.Close()
	text, err := os.ReadFile(template)
	if err != nil {
		return err
	}
	if err := os.WriteFile(config+".new", []byte(strings.ReplaceAll(string(text), "ENDPOINT", server.URL)), 0o600); err != nil {
		return err
	}
	if err := os.Rename(config+".new", config); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	<-ctx.Done()
	return nil
}
