package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/rawbytes"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
)

// DefaultFile is read when no file is named and the working directory has one.
const DefaultFile = "inboxd.yaml"

// Options say where [Load] looks.
type Options struct {
	// File is the YAML file; empty: INBOXD_CONFIG, then DefaultFile if there
	// is one.
	File string
	// Dir is where DefaultFile is looked for, and what relative paths start
	// from; empty: the working directory.
	Dir string
	// Environ is the environment, as os.Environ has it; nil: none. The driver
	// of PostgreSQL reads PG* variables from the process's own.
	Environ []string
	// Flags holds flags that were bound with BindFlag; nil: none.
	Flags *pflag.FlagSet
}

// Load reads all layers and checks the outcome. Its error is an [*Error] with
// every problem that was found.
func Load(opts Options) (*Config, error) {
	if opts.Flags == nil {
		opts.Flags = pflag.NewFlagSet("", pflag.ContinueOnError)
	}
	l := &loader{opts: opts, merged: koanf.New("."), handlers: map[string]Handler{}}
	l.loadDefaults()
	l.loadFile()
	l.loadLibpq()
	l.load(l.environment(), nil, "the environment")
	l.load(l.flags(), nil, "the command line")
	return l.finish()
}

// loader reads layer after layer into merged. Values are checked as they are
// read, so that a problem can name the place it comes from; a value with a
// problem stays out.
type loader struct {
	opts     Options
	merged   *koanf.Koanf
	handlers map[string]Handler
	file     string
	urlGiven bool // some layer says where the database is
	problems problems
}

func (l *loader) loadDefaults() {
	c, values := defaults(), map[string]any{}
	for _, k := range knownKeys {
		values[k.path] = k.value(c)
	}
	l.load(confmap.Provider(values, "."), nil, "the defaults")
	l.urlGiven = false
}

// load merges a layer over the ones before it.
func (l *loader) load(p koanf.Provider, parser koanf.Parser, layer string) {
	next := koanf.New(".")
	if err := next.Load(p, parser); err != nil {
		l.problems = append(l.problems, err)
		return
	}
	l.urls(next, layer)
	if err := l.merged.Merge(next); err != nil {
		l.problems = append(l.problems, fmt.Errorf("merge %s: %w", layer, err))
	}
}

// urls keeps a URL and its file one setting. A layer that says where the
// database is says too whether there is a direct way to it: one from a layer
// below may lead to another database.
func (l *loader) urls(next *koanf.Koanf, layer string) {
	direct := l.oneURL(next, layer, "database.direct_url")
	if !l.oneURL(next, layer, "database.url") {
		return
	}
	l.urlGiven = true
	if !direct {
		l.merged.Delete("database.direct_url")
		l.merged.Delete("database.direct_url_file")
	}
}

// oneURL keeps a URL and the key of its file one setting, and reports whether
// the layer has it. An empty file is none; an empty URL is one, and leaves it
// all to the driver.
func (l *loader) oneURL(next *koanf.Koanf, layer, key string) bool {
	inFile := key + "_file"
	url, file := next.Exists(key), next.String(inFile) != ""
	switch {
	case file && next.String(key) != "":
		l.problems.add("", inFile, "%s and %s are both set by %s, but only one of them can count", key, inFile, layer)
		next.Delete(inFile)
	case file:
		l.merged.Delete(key)
	case url:
		l.merged.Delete(inFile)
	}
	return url || file
}

func (l *loader) loadFile() {
	path, named := l.opts.File, true
	if path == "" {
		path = l.lookup("INBOXD_CONFIG")
	}
	if path == "" {
		path, named = DefaultFile, false
	}
	content, err := os.ReadFile(l.at(path))
	switch {
	case err == nil:
		l.file = path
		l.load(rawbytes.Provider(content), &document{loader: l, name: path}, path)
	case named || !errors.Is(err, fs.ErrNotExist):
		l.problems.add("", "", "the configuration file %s cannot be read: %s", path, reason(err))
	}
}

// at is a path as seen from Dir.
func (l *loader) at(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(l.opts.Dir, path)
}

// reason is an error without the path that the sentence has named already.
func reason(err error) string {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err.Error()
	}
	return err.Error()
}

// locators are the variables of libpq that say which database is meant. The
// rest of them (PGPASSWORD, PGSSLMODE, …) complete whatever URL there is.
var locators = []string{"PGHOST", "PGPORT", "PGUSER", "PGDATABASE", "PGSERVICE"}

// loadLibpq is the layer of variables that are not the program's own:
// DATABASE_URL counts more than the file, PGHOST and its like less.
func (l *loader) loadLibpq() {
	if url := l.lookup("DATABASE_URL"); url != "" {
		if wrong := keysByPath["database.url"].check(url); wrong != "" {
			l.problems.add("DATABASE_URL", "database.url", "%s", wrong)
			return
		}
		l.setURL(url)
		return
	}
	located := func(name string) bool { return l.lookup(name) != "" }
	if !l.urlGiven && slices.ContainsFunc(locators, located) {
		l.setURL("")
	}
}

func (l *loader) setURL(url string) {
	l.load(confmap.Provider(map[string]any{"database.url": url}, "."), nil, "DATABASE_URL")
}

// finish makes the Config of what was merged.
func (l *loader) finish() (*Config, error) {
	c := &Config{File: l.file}
	if err := l.merged.Unmarshal("", c); err != nil {
		l.problems = append(l.problems, fmt.Errorf("read the merged configuration: %w", err))
		return nil, l.problems.err()
	}
	c.Handlers = maps.Clone(l.handlers)
	l.readURL("database.url", &c.Database.URL, c.Database.URLFile)
	l.readURL("database.direct_url", &c.Database.DirectURL, c.Database.DirectURLFile)
	c.complete()
	c.checkTogether(&l.problems)
	if err := l.problems.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// readURL takes a URL from the file that holds it, if there is one.
func (l *loader) readURL(key string, to *string, path string) {
	if path == "" {
		return
	}
	inFile := key + "_file"
	content, err := os.ReadFile(l.at(path))
	if err != nil {
		l.problems.add("", inFile, "%s is %q, but that file cannot be read: %s", inFile, path, reason(err))
		return
	}
	url := strings.TrimSpace(string(content))
	if url == "" {
		l.problems.add("", inFile, "%s is %q, but that file is empty", inFile, path)
		return
	}
	if wrong := keysByPath[key].check(url); wrong != "" {
		l.problems.add(path, key, "%s", wrong)
		return
	}
	*to = url
}
