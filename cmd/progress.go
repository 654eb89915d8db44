package cmd

import "fmt"

const (
	// progressFrom is how many things are changed at least for progress to be said.
	progressFrom = bulkSample + 1
	// progressEvery is how many are changed between two lines.
	progressEvery = 50
)

// progress says how far a change of many things has come, in one line of a
// terminal that is written over. Elsewhere it is silent.
type progress struct {
	app   *app
	did   string // "retried"
	noun  string
	total int64
	shown bool
	said  int64
}

func (a *app) progressOf(did, noun string, total int64) *progress {
	return &progress{app: a, did: did, noun: noun, total: total, shown: isTerminal(a.stderr) && total >= progressFrom}
}

// at says that so many are done by now.
func (p *progress) at(done int64) {
	if p.shown && (done >= p.said+progressEvery || done == p.total) {
		p.said = done
		p.over("%s %s of %s", p.did, thousands(done), count(p.total, p.noun))
	}
}

// end leaves the line to what is said next.
func (p *progress) end() {
	if p.shown {
		p.over("")
	}
}

func (p *progress) over(format string, args ...any) {
	_, _ = fmt.Fprintf(p.app.stderr, "\r\x1b[K"+format, args...) // there is nowhere else to say it
}
