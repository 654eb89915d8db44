package main

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// light are the packages that a service imports for its handlers, and heavy of
// the standard library what they must not bring along.
var (
	light = []string{"inbox", "handlers", "ordering"}
	heavy = []string{"net/http", "net/rpc", "expvar", "testing", "flag", "html/template", "text/template"}
)

// modules are all that the light packages may import from outside, themselves or
// by way of another.
var modules = []string{
	"github.com/cenkalti/backoff/v4", "github.com/jackc/pgpassfile", "github.com/jackc/pgservicefile", "github.com/jackc/pgx/v5",
	"github.com/jackc/pgxlisten", "github.com/jackc/puddle/v2",
	"golang.org/x/sync", "golang.org/x/text", "golang.org/x/time",
}

// TestLibraryStaysLight fails when importing the library brings Kafka, HTTP,
// metrics, tracing, or whatever else nobody asked for.
func TestLibraryStaysLight(t *testing.T) {
	t.Parallel()
	patterns := make([]string, len(light))
	for i, name := range light {
		patterns[i] = module + "/" + name
	}
	found, err := load(root, packages.NeedName|packages.NeedImports|packages.NeedDeps|packages.NeedModule, patterns...)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	packages.Visit(found, nil, func(p *packages.Package) {
		seen++
		switch {
		case p.Module == nil:
			if slices.Contains(heavy, p.PkgPath) {
				t.Errorf("the library imports %s: %s", p.PkgPath, strings.Join(way(found, p.PkgPath), " > "))
			}
		case p.Module.Path == module:
			if name := strings.TrimPrefix(p.PkgPath, module+"/"); !slices.Contains(light, name) && !strings.HasPrefix(name, "internal/") {
				t.Errorf("the library imports %s: %s", name, strings.Join(way(found, p.PkgPath), " > "))
			}
		case !slices.Contains(modules, p.Module.Path):
			t.Errorf("the library imports %s: %s", p.Module.Path, strings.Join(way(found, p.PkgPath), " > "))
		}
	})
	if seen < 50 {
		t.Errorf("only %d packages were looked at", seen)
	}
}

// way is how one of the packages comes to import another.
func way(from []*packages.Package, to string) []string {
	seen := map[string]bool{}
	var walk func(p *packages.Package) []string
	walk = func(p *packages.Package) []string {
		if p.PkgPath == to {
			return []string{to}
		}
		if seen[p.PkgPath] {
			return nil
		}
		seen[p.PkgPath] = true
		for _, next := range p.Imports {
			if rest := walk(next); rest != nil {
				return append([]string{p.PkgPath}, rest...)
			}
		}
		return nil
	}
	for _, p := range from {
		if found := walk(p); found != nil {
			return found
		}
	}
	return nil
}
