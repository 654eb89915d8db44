package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	embedded "github.com/fergusstrange/embedded-postgres"
)

// releases are the versions that can be downloaded, newest first.
var releases = []embedded.PostgresVersion{embedded.V18, embedded.V17, embedded.V16, embedded.V15, embedded.V14}

// downloadChosen serves INBOXD_POSTGRES_BIN=download and download:MAJOR.
func downloadChosen(ctx context.Context, c Config, a account, want string, major int) (binaries, error) {
	if want == "" {
		return downloadBinaries(ctx, c, a, major)
	}
	chosen, err := strconv.Atoi(want)
	if err != nil {
		return binaries{}, fmt.Errorf("%s=download:%s: %q is no major version of PostgreSQL", BinVariable, want, want)
	}
	b, err := downloadBinaries(ctx, c, a, chosen)
	if err != nil {
		return b, err
	}
	return b, b.fits(major)
}

// downloadBinaries returns the binaries of a major version (zero: the newest), from the cache or the network.
func downloadBinaries(ctx context.Context, c Config, a account, major int) (binaries, error) {
	if b, ok := downloaded(ctx, a, major); ok {
		return b, nil
	}
	if err := ctx.Err(); err != nil {
		return binaries{}, err
	}
	release, ok := releaseOf(major)
	if !ok {
		return binaries{}, fmt.Errorf("%w: PostgreSQL %d cannot be downloaded: install it, or set %s to its bin directory",
			ErrVersion, major, BinVariable)
	}
	cache, err := cacheDir(a)
	if err != nil {
		return binaries{}, err
	}
	c.logger().Info("downloading PostgreSQL, once", "version", release, "to", cache)
	if err := fetch(ctx, a, release, cache); err != nil {
		return binaries{}, fmt.Errorf("%w: the download of %s failed: %w. "+
			"Install PostgreSQL %d or newer, or set %s to the directory that holds initdb and postgres",
			ErrNoBinaries, release, err, oldest, BinVariable)
	}
	return inspect(ctx, filepath.Join(cache, string(release), "bin"))
}

// downloaded returns the binaries of a major version (zero: the newest) if they were downloaded before.
func downloaded(ctx context.Context, a account, major int) (binaries, bool) {
	release, ok := releaseOf(major)
	if !ok {
		return binaries{}, false
	}
	cache, err := cacheDir(a)
	if err != nil {
		return binaries{}, false
	}
	b, err := inspect(ctx, filepath.Join(cache, string(release), "bin"))
	return b, err == nil
}

func releaseOf(major int) (embedded.PostgresVersion, bool) {
	if major == 0 {
		return releases[0], true
	}
	for _, release := range releases {
		if strings.HasPrefix(string(release), strconv.Itoa(major)+".") {
			return release, true
		}
	}
	return "", false
}

// cacheDir returns the directory for downloads, which the account can reach.
func cacheDir(a account) (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil && !a.switched {
		return "", fmt.Errorf("%w: nowhere to keep a download: %w", ErrNoBinaries, err)
	}
	if err != nil || a.reach(existing(dir)) != nil {
		dir = "/var/cache"
	}
	return filepath.Join(dir, "inboxd", "postgres"), nil
}

// existing returns the longest part of path that exists.
func existing(path string) string {
	for {
		if _, err := os.Stat(path); err == nil || filepath.Dir(path) == path {
			return path
		}
		path = filepath.Dir(path)
	}
}

// fetch downloads a release into its directory under cache. The directory appears when it is complete.
// A download cannot be cut short: when the context ends, it is left to itself.
func fetch(ctx context.Context, a account, release embedded.PostgresVersion, cache string) error {
	if err := makeReachable(a, cache); err != nil {
		return err
	}
	removeOld(filepath.Join(cache, "download-*"))
	temp, err := os.MkdirTemp(cache, "download-")
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		err := extract(release, temp)
		if err == nil {
			err = publish(filepath.Join(temp, "run"), filepath.Join(cache, string(release)))
		}
		done <- errors.Join(err, os.RemoveAll(temp))
	}()
	select {
	case err := <-done:
		http.DefaultClient.CloseIdleConnections() // the library uses the default client
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// removeOld removes what processes left that ended during a download.
func removeOld(pattern string) {
	paths, _ := filepath.Glob(pattern)
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > time.Hour {
			_ = os.RemoveAll(path)
		}
	}
}

// extract downloads a release to temp/run. The library has no call for that alone: it also starts a
// server, which is given a data directory that looks like one but cannot be started. The error of the
// start is the one that means it got so far.
func extract(release embedded.PostgresVersion, temp string) error {
	data := filepath.Join(temp, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	major, _, _ := strings.Cut(string(release), ".")
	if err := os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte(major), 0o600); err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	run := filepath.Join(temp, "run")
	server := embedded.NewDatabase(embedded.DefaultConfig().Version(release).Port(uint32(port)).
		CachePath(temp).RuntimePath(run).DataPath(data).Logger(io.Discard))
	if err = server.Start(); err == nil {
		return server.Stop()
	}
	if !strings.HasPrefix(err.Error(), "could not start postgres") {
		return err
	}
	return nil
}

// publish makes what was extracted readable for every user and moves it to its place.
func publish(from, to string) error {
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm() | 0o444
		if mode&0o100 != 0 {
			mode |= 0o111
		}
		return os.Chmod(path, mode)
	})
	if err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		if _, missing := os.Stat(filepath.Join(to, "bin", "postgres")); missing == nil {
			return nil // another process was faster
		}
		return err
	}
	return nil
}
