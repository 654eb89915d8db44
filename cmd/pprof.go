package cmd

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/pprof"
	"time"
)

// servePprof answers with profiles of the process on a loopback address until
// the function that it returns is called. An empty address: nowhere.
func (a *app) servePprof(address string) (stop func(), err error) {
	if address == "" {
		return func() {}, nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, wrongUse("--pprof is %q, but it must be host:port, such as 127.0.0.1:6060", address)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, wrongUse("--pprof is %q, but profiles are not protected by anything: it must be a loopback address, such as 127.0.0.1:6060", address)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, failed("profiles cannot be served on %s: %w", address, err).withHint("choose another port with --pprof")
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			a.log.Warn("profiles are no longer served", "error", err.Error())
		}
	}()
	a.log.Info("serving profiles", "url", "http://"+listener.Addr().String()+"/debug/pprof/")
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close()
		}
		<-done
	}, nil
}
