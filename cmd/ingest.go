package cmd

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/inbox/jsonl"
)

func newIngestCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ingest [FILE or -]",
		Short: "Store events from JSON lines",
		Long: "Store events from JSON lines, one event a line, from a file or from stdin (- or no argument):\n\n" +
			`  {"event_id": "e-1", "aggregate_id": "order-7", "event_type": "OrderPaid", "payload": {"amount": 12}}` + "\n\n" +
			"Optional: sequence, occurred_at (RFC 3339), headers (an object of texts, or a list of pairs).\n" +
			"The payload is kept as it stands in the line. A line that cannot become an event goes to quarantine.\n" +
			"An event_id that is stored already is a duplicate and dropped, so a file can be ingested again;\n" +
			"a conflict is a duplicate with another content.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return tooMany(cmd, args[1], 1)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.ingest(cmd.Context(), strings.Join(args, ""))
		},
	}
	a.addOutputFlag(cmd)
	return cmd
}

// ingestReport is what became of the lines.
type ingestReport struct {
	Stored      int64 `json:"stored"`
	Duplicates  int64 `json:"duplicates"`
	Conflicts   int64 `json:"conflicts"`
	Quarantined int64 `json:"quarantined"`
}

func (a *app) ingest(ctx context.Context, file string) error {
	in, err := a.openInput(file)
	if err != nil {
		return err
	}
	defer in.Close()
	db, err := a.openDatabase(ctx)
	if err != nil {
		return err
	}
	defer db.close()
	if err := a.registerConfigured(db.config); err != nil {
		return err
	}
	job := newIngestJob(inbox.NewStore(db.pool, db.schema), in, isStdin(file), a.reg.Ignores, a.log)
	if err := job.run(ctx); err != nil {
		return job.failure(ctx, err)
	}
	a.sayIngested(job)
	counts := job.ingester.Counts()
	r := ingestReport{counts.Stored, counts.Duplicates, counts.Conflicts, counts.Quarantined}
	err = a.show(r, []field{
		{"stored", r.Stored}, {"duplicates", r.Duplicates}, {"conflicts", r.Conflicts}, {"quarantined", r.Quarantined},
	}, nil)
	if err == nil && job.tooLong > 0 {
		return doneInPart("%s %s longer than %d MB and not stored; all others were",
			count(job.tooLong, "line"), agree(job.tooLong, "is", "are"), jsonl.MaxLine>>20).
			withHint("split such an event, or keep its large part elsewhere and send where it is")
	}
	return err
}

func isStdin(file string) bool { return file == "" || file == "-" }

// openInput opens the file; "" and "-" are stdin.
func (a *app) openInput(file string) (io.ReadCloser, error) {
	if isStdin(file) {
		if f, ok := a.stdin.(*os.File); ok && isTerminal(f) {
			a.say("reading events from the terminal, one a line; end with Ctrl-D")
		}
		return io.NopCloser(a.stdin), nil
	}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, notFound("there is no file %s", file).withHint("name a file of JSON lines, or - for stdin")
	}
	if err != nil {
		return nil, failed("the file %s cannot be read: %w", file, err)
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		_ = f.Close() // nothing was read from it
		return nil, failed("%s is a directory, not a file of JSON lines", file)
	}
	return f, nil
}

// sayIngested tells on stderr what the counts do not.
func (a *app) sayIngested(job *ingestJob) {
	counts := job.ingester.Counts()
	if job.lines == 0 && job.tooLong == 0 {
		a.say("the input holds no event")
	}
	for _, why := range job.decoder.refused {
		a.say("%s", why)
	}
	if counts.Quarantined > 0 {
		a.say("%s could not become %s and %s in quarantine as %s stood; see: inboxd quarantine list", count(counts.Quarantined, "line"),
			agree(counts.Quarantined, "an event", "events"), agree(counts.Quarantined, "is", "are"), agree(counts.Quarantined, "it", "they"))
	}
	if counts.Conflicts > 0 {
		a.say("%s %s the event_id of a stored event and another content; the stored one stands",
			count(counts.Conflicts, "line"), agree(counts.Conflicts, "has", "have"))
	}
	if counts.Ignored > 0 {
		a.say("%s of an ignored type %s not stored", count(counts.Ignored, "event"), agree(counts.Ignored, "was", "were"))
	}
	if unknown := job.decoder.lines.Unknown(); len(unknown) > 0 {
		a.say("warning: unknown keys were passed over: %s", strings.Join(unknown, ", "))
	}
}
