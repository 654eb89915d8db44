package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/tools/go/packages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const root = "../.."

// TestAPIIsAsWrittenDown fails when a package exports something else than its
// file under api/ says.
func TestAPIIsAsWrittenDown(t *testing.T) {
	t.Parallel()
	now, err := listings(root)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := stored(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(now) < 5 {
		t.Errorf("only %d packages were found", len(now))
	}
	if d := differences(kept, now); d != "" {
		t.Error(d)
	}
}

func TestListing(t *testing.T) {
	t.Parallel()
	found, err := load(".", packages.NeedName|packages.NeedTypes, "./testdata/sample")
	if err != nil {
		t.Fatal(err)
	}
	got := list(found[0].Types)
	want := []string{
		`const Limit untyped int = 3`,
		`const Name Kind = "name"`,
		`func Sum[N Number](list ...N) N`,
		`method (*Config) Reach()`,
		`method (*Config) Set(ctx context.Context, size int) (err error)`,
		`method (Kind) String() string`,
		`method (List) First() T`,
		`type Config struct`,
		"type Config struct: Deep int",
		"type Config struct: Size int `json:\"size\"`",
		`type Config struct: embeds other.Thing`,
		`type Kind string`,
		`type List[T any] struct`,
		`type List[T any] struct: Items []T`,
		`type Number interface`,
		`type Number interface: ~int | ~int64`,
		`type Reader interface`,
		`type Reader interface: (unexported methods)`,
		`type Reader interface: Read(p []byte) (n int, err error)`,
		`type Reader interface: ReadAll(f func(T other.Thing) bool) []byte`,
		`type Text = string`,
		`var Default other.Thing`,
		`var ErrGone error`,
	}
	if d := differences(map[string]string{"sample": strings.Join(want, "\n")}, map[string]string{"sample": strings.Join(got, "\n")}); d != "" {
		t.Error(d)
	}
}

func TestDifferences(t *testing.T) {
	t.Parallel()
	kept := map[string]string{"a": "func F()\nfunc G()\n", "b": "func H()\n", "same": "var X int\n"}
	now := map[string]string{"a": "func F(n int)\nfunc G()\n", "c": "func I()\n", "same": "var X int\n"}
	const want = `package a differs from api/a.txt:
	- func F()
	+ func F(n int)
package b differs from api/b.txt:
	- func H()
package c has no api/c.txt
Who uses what has a minus will have to change code. If all of it is meant, write it down with make api.`
	if got := differences(kept, now); got != want {
		t.Errorf("got\n%s", got)
	}
	if got := differences(now, now); got != "" {
		t.Errorf("got\n%s", got)
	}
}

// Listings of packages that are gone are removed, the others written.
func TestWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module " + module + "\n", "a/b/b.go": "// Package b is.\npackage b\n\nfunc F() {}\n",
		"internal/c/c.go": "package c\n\nfunc G() {}\n", "main.go": "package main\n\nfunc main() {}\n",
		"examples/d/d.go": "package d\n", "api/gone.txt": "package gone\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := write(dir); err != nil {
		t.Fatal(err)
	}
	kept, err := stored(dir)
	if err != nil || len(kept) != 1 || kept["a/b"] != "package "+module+"/a/b\n\nfunc F()\n" {
		t.Errorf("got %q, %v", kept, err)
	}
}
