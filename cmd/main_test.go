package cmd_test

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/inboxd/inboxd/cmd"
	"github.com/inboxd/inboxd/handlers"
)

// TestMain makes the test binary stand in for the programs of the scripts:
// inboxd, and shop, a team's own binary with a handler in Go.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"inboxd": func() { cmd.Main(handlers.New()) },
		"shop": func() {
			reg := handlers.New()
			reg.Ignore("OrderViewed")
			cmd.Main(reg)
		},
	})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("GORACE", "atexit_sleep_ms=0") // or each command takes a second longer under -race
			return nil
		},
	})
}
