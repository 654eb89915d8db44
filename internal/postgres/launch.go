package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// listen starts the server on the configured port or on a free one.
func (s *Server) listen(ctx context.Context) error {
	if s.config.Port != 0 {
		s.port = s.config.Port
		return s.launch(ctx)
	}
	for range 10 {
		port, err := freePort()
		if err != nil {
			return err
		}
		s.port = port
		if err := s.launch(ctx); !errors.Is(err, ErrPortTaken) {
			return err
		}
	}
	return fmt.Errorf("%w: ten free ports were taken by others before the server had them", ErrPortTaken)
}

// freePort returns a port nobody listens on. It is below those that systems give to outgoing
// connections, so that it is still free when the server comes back after a while.
func freePort() (int, error) {
	var err error
	for range 100 {
		port := 15000 + rand.IntN(15000)
		if err = portFree(port); err == nil {
			return port, nil
		}
	}
	return 0, err
}

// portFree says whether a server could listen on the port.
func portFree(port int) error {
	l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: something else listens on 127.0.0.1:%d: stop it, or choose another port", ErrPortTaken, port)
	}
	if err != nil {
		return fmt.Errorf("try the port: %w", err)
	}
	return l.Close()
}

// launch starts the server on its port and waits until it accepts connections.
func (s *Server) launch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := portFree(s.port); err != nil {
		return err
	}
	log, err := s.openLog()
	if err != nil {
		return fmt.Errorf("open the server's log: %w", err)
	}
	defer log.Close()
	if err := os.Remove(s.dir.pid()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove what a dead server left: %w", err)
	}
	begin := time.Now()
	cmd := s.dir.command(context.WithoutCancel(ctx), s.binaries, "postgres", s.arguments()...)
	cmd.Stdout, cmd.Stderr = log, log
	if s.process, err = startProcess(cmd); err != nil {
		return fmt.Errorf("run %s as user %s: %w", cmd.Path, s.dir.account.name, err)
	}
	if err := s.ready(ctx); err != nil {
		return errors.Join(s.failure(err), s.shutdown(context.WithoutCancel(ctx), Immediate))
	}
	s.config.logger().Debug("PostgreSQL started", "dir", s.dir.path, "port", s.port,
		"version", s.binaries.major, "took", time.Since(begin))
	return nil
}

// arguments are the server's, settings in a fixed order.
func (s *Server) arguments() []string {
	args := []string{"-D", s.dir.data()}
	settings := s.config.settings(s.port)
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", name+"="+settings[name])
	}
	return args
}

// openLog begins the server's log anew.
func (s *Server) openLog() (*os.File, error) {
	log, err := os.OpenFile(s.dir.log(), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return log, s.dir.account.own(s.dir.log())
}

// ready returns when the server accepts connections, or an error when it has ended or the time is over.
func (s *Server) ready(ctx context.Context) error {
	var last error
	begin := time.Now()
	err := poll(ctx, func() bool {
		if !s.process.running() {
			return true
		}
		last = ping(ctx, s.URL())
		return last == nil || rejected(last) && time.Since(begin) > rejectTimeout
	})
	if err == nil && rejected(last) {
		err = errors.New("the server does not know the password")
	}
	if err != nil && s.process.running() {
		return fmt.Errorf("wait until it accepts connections: %w", errors.Join(err, last))
	}
	if !s.process.running() {
		return fmt.Errorf("the server ended: %w", s.process.err)
	}
	return nil
}

// rejectTimeout is how long a rejected password may come from another server on the port, while
// the own one has yet to find the port taken.
const rejectTimeout = 3 * time.Second

// rejected says whether a server did not accept the password.
func rejected(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && strings.HasPrefix(pg.Code, "28")
}

// failure adds to a failed start what the server said.
func (s *Server) failure(err error) error {
	said, _ := os.ReadFile(s.dir.log())
	if strings.Contains(string(said), "could not create any TCP/IP sockets") {
		return fmt.Errorf("%w: something else has just begun to listen on 127.0.0.1:%d", ErrPortTaken, s.port)
	}
	return fmt.Errorf("%w. It said (%s):\n%s", err, s.dir.log(), tail(said))
}

// ping connects once. The password is proved both ways, so whoever answers is the server of the directory.
func ping(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}
