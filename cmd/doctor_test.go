package cmd

import (
	"testing"

	"github.com/inboxd/inboxd/internal/doctor"
)

func TestLongRemediesAreWrittenOnce(t *testing.T) {
	t.Parallel()
	one, two := "inboxd serve", "grant a;\ngrant b;"
	got := remedies([]doctor.Result{
		{Check: "listen", Status: doctor.OK, Detail: "heard"},
		{Check: "privileges", Status: doctor.Failed, Detail: "it lacks a", Remedy: &two},
		{Check: "processes", Status: doctor.Warning, Detail: "none runs", Remedy: &one},
		{Check: "lanes", Status: doctor.Warning, Detail: "not known", Remedy: &two},
		{Check: "breakers", Status: doctor.Warning, Detail: "none runs", Remedy: &one},
	})
	expect(t, string(got), `
privileges: failed
  it lacks a
    grant a;
    grant b;

processes: warning
  none runs
    inboxd serve

lanes: warning
  not known
    as for privileges, above

breakers: warning
  none runs
    inboxd serve
`)
}
