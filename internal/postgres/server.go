package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"sync"
)

// Server is a PostgreSQL server that this process started, or, from Attach, one that runs elsewhere.
// Its methods may be called from several goroutines.
type Server struct {
	config   Config
	dir      directory
	binaries binaries
	password string
	port     int

	owned bool

	mu      sync.Mutex // guards what follows and is held while the server starts or ends
	lock    *os.File   // held by the owner until it stops the server
	process *process
}

// Start starts a server and returns when it accepts connections. The context bounds the start alone.
// It fails with ErrInUse when a living process owns the directory's server; a server whose
// owner is dead is stopped first.
func Start(ctx context.Context, c Config) (*Server, error) {
	if err := errors.Join(supported(), c.validate()); err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	if c.Reuse {
		s, err := startReused(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("start PostgreSQL: %w", err)
		}
		return s, nil
	}
	if c.Dir == "" {
		sweep(ctx)
	}
	dir, err := openDirectory(c.Dir, c.Fast)
	if err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	s := &Server{config: c, dir: dir, owned: true}
	if s.lock, err = lockFile(dir.lock()); err != nil {
		return nil, fmt.Errorf("start PostgreSQL on %s: %w", dir.path, s.busy(err))
	}
	if err := s.open(ctx); err != nil {
		return nil, fmt.Errorf("start PostgreSQL on %s: %w", dir.path, errors.Join(err, s.release()))
	}
	return s, nil
}

// URL is the server's address: database postgres, superuser postgres, password included.
func (s *Server) URL() string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(superuser, s.password),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)),
		Path:     "/postgres",
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Port is the TCP port on 127.0.0.1.
func (s *Server) Port() int { return s.port }

// Dir is the directory the server's data is in.
func (s *Server) Dir() string { return s.dir.path }

// Owned says whether this process started the server and so is the one to stop it.
func (s *Server) Owned() bool { return s.owned }

// Stop shuts the server down, waits for its end and gives up the directory, removing it if
// it was temporary. When the context ends first, the server is killed and the error says so.
// Stopping a server that is stopped, or that was attached, does nothing.
func (s *Server) Stop(ctx context.Context) error {
	mode := Clean
	if s.dir.temp {
		mode = Immediate // nobody will read the data
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.shutdown(ctx, mode), s.release())
}

// Kill kills the server and all its processes with SIGKILL. Restart brings it back.
func (s *Server) Kill() error { return s.Shutdown(context.Background(), Crash) }

// Shutdown ends the server in the given mode and waits for its end. The data and the port
// stay its own: Restart brings it back. When the context ends first, the server is killed.
func (s *Server) Shutdown(ctx context.Context, mode Mode) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shutdown(ctx, mode)
}

// Restart shuts the server down in the given mode if it runs, and starts it on the same port.
func (s *Server) Restart(ctx context.Context, mode Mode) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock == nil {
		return errors.New("restart PostgreSQL: this process does not own the server, or has stopped it")
	}
	if err := s.shutdown(ctx, mode); err != nil {
		return err
	}
	if err := s.launch(ctx); err != nil {
		return fmt.Errorf("restart PostgreSQL on %s: %w", s.dir.path, err)
	}
	return nil
}

// Pause freezes the server and all its processes; connections stay open and are not answered.
func (s *Server) Pause() error { return s.signal("pause", freeze) }

// Resume lets a frozen server go on.
func (s *Server) Resume() error { return s.signal("resume", thaw) }

func (s *Server) signal(verb string, send func(pid int) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.process.running() {
		return fmt.Errorf("%s PostgreSQL: %w", verb, ErrNotRunning)
	}
	if err := send(s.process.pid); err != nil {
		return fmt.Errorf("%s PostgreSQL: %w", verb, err)
	}
	return nil
}

// open makes the directory's data if there is none, and starts the server. The lock is held.
func (s *Server) open(ctx context.Context) error {
	if err := s.dir.evict(ctx); err != nil {
		return err
	}
	major, err := s.dir.major()
	if err != nil {
		return err
	}
	if s.binaries, err = findBinaries(ctx, s.config, s.dir.account, major); err != nil {
		return err
	}
	if err := s.dir.account.reach(s.binaries.dir); err != nil {
		return err
	}
	if major == 0 {
		if err := s.dir.init(ctx, s.binaries); err != nil {
			return err
		}
	}
	if s.password, err = s.dir.readPassword(); err != nil {
		return err
	}
	return s.listen(ctx)
}

func (s *Server) busy(err error) error {
	if !errors.Is(err, ErrInUse) {
		return fmt.Errorf("lock the directory: %w", err)
	}
	if p, ok := s.dir.postmaster(); ok {
		return fmt.Errorf("%w: another process owns its server (process %d, port %d): use that one, "+
			"stop it, or choose another directory", err, p.pid, p.port)
	}
	return fmt.Errorf("%w: another process is starting or stopping its server: try again", err)
}

// release gives up the directory, once.
func (s *Server) release() error {
	if s.lock == nil {
		return nil
	}
	lock := s.lock
	s.lock = nil
	if s.dir.temp {
		return errors.Join(os.RemoveAll(s.dir.path), lock.Close())
	}
	return lock.Close()
}

// shutdown is Shutdown for who holds the mutex.
func (s *Server) shutdown(ctx context.Context, mode Mode) error {
	if !s.process.running() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if err := endProcess(ctx, s.process.pid, mode, s.process.wait); err != nil {
		return fmt.Errorf("stop PostgreSQL on %s: %w", s.dir.path, err)
	}
	s.config.logger().Debug("PostgreSQL stopped", "dir", s.dir.path, "port", s.port)
	return nil
}
