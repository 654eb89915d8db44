package cmd

import (
	"context"
	"encoding/hex"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inboxd/inboxd/admin"
)

func newQuarantineCmd(a *app) *cobra.Command {
	return noun("quarantine", "See records that could not become events, and try them again or discard them",
		newQuarantineListCmd(a), newQuarantineShowCmd(a), newQuarantineRequeueCmd(a), newQuarantineDiscardCmd(a))
}

func newQuarantineListCmd(a *app) *cobra.Command {
	var f quarantineFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List records in quarantine, the newest first",
		Args:  exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.operate(cmd.Context(), func(ops *admin.Admin) error { return a.listQuarantine(cmd.Context(), ops, f.filter()) })
		},
	}
	f.add(cmd)
	a.addOutputFlag(cmd)
	return cmd
}

// quarantineFlags say which records are meant.
type quarantineFlags struct {
	records      admin.QuarantineFilter
	since, until momentFlag
}

func (f *quarantineFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.records.Reason, "reason-code", "", "records that are in quarantine for this reason: a `WORD` such as not-json")
	cmd.Flags().StringVar(&f.records.Topic, "topic", "", "records from this `TOPIC`")
	addTimeFlags(cmd, &f.since, &f.until, "records received")
	addLimitFlag(cmd, &f.records.Limit, "records")
}

func (f *quarantineFlags) filter() admin.QuarantineFilter {
	f.records.From, f.records.Until = f.since.at, f.until.at
	return f.records
}

// quarantineFilterNames are the flags that quarantineFlags adds.
var quarantineFilterNames = []string{"reason-code", "topic", "since", "until", "limit"}

func (a *app) listQuarantine(ctx context.Context, ops *admin.Admin, f admin.QuarantineFilter) error {
	return bounded[admin.Quarantined]{
		listing: listing[admin.Quarantined]{columns: quarantineColumns, noun: "records in quarantine"},
		from: func(limit int) iter.Seq2[admin.Quarantined, error] {
			f.Limit = limit
			return ops.Quarantine(ctx, f)
		},
		count: func() (int, error) { return ops.CountQuarantine(ctx, f) },
	}.write(a, f.Limit)
}

var quarantineColumns = []column[admin.Quarantined]{
	{head: "id", cell: func(q admin.Quarantined) any { return q.ID }},
	{head: "received", cell: func(q admin.Quarantined) any { return q.ReceivedAt }},
	{head: "source", cell: func(q admin.Quarantined) any { return sourceText(q.Source) }, flex: true},
	{head: "size", cell: func(q admin.Quarantined) any { return q.Size }},
	{head: "reason", cell: func(q admin.Quarantined) any { return q.Reason }},
	{head: "detail", cell: func(q admin.Quarantined) any { return firstLine(q.Detail) }, flex: true},
}

func newQuarantineShowCmd(a *app) *cobra.Command {
	var ids []int64
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show one record with its bytes",
		Args: func(cmd *cobra.Command, args []string) (err error) {
			if err := exactArgs("ID")(cmd, args); err != nil {
				return err
			}
			ids, err = quarantineIDs(args)
			return err
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.operate(cmd.Context(), func(ops *admin.Admin) error {
				d, err := ops.QuarantineRecord(cmd.Context(), ids[0])
				if err != nil {
					return err
				}
				return a.show(d, quarantineFields(d), nil)
			})
		},
	}
	cmd.ValidArgsFunction = a.completion(onlyFirst(findQuarantined))
	a.addOutputFlag(cmd)
	return cmd
}

// quarantineIDs reads the ids that a command was given.
func quarantineIDs(args []string) ([]int64, error) {
	ids := make([]int64, len(args))
	for i, arg := range args {
		id, err := strconv.ParseInt(arg, 10, 64)
		if err != nil {
			return nil, wrongUse("%q is not the id of a record in quarantine, which is a number", arg).
				withHint("the ids are in: inboxd quarantine list")
		}
		ids[i] = id
	}
	return ids, nil
}

// findQuarantined finds ids of records in quarantine for a shell.
func findQuarantined(ctx context.Context, db *database, _ []string, _ string) ([]string, error) {
	var words []string
	for q, err := range admin.New(db.pool, db.schema).Quarantine(ctx, admin.QuarantineFilter{Limit: maxWords}) {
		if err != nil {
			return nil, err
		}
		words = append(words, fmt.Sprintf("%d\t%s", q.ID, printable(q.Reason)))
	}
	return words, nil
}

func quarantineFields(d *admin.QuarantinedDetail) []field {
	fields := []field{
		{"id", d.ID}, {"received", d.ReceivedAt}, {"reason", d.Reason}, {"detail", wrapped(d.Detail, len("value bytes")+columnGap)},
		{"source", sourceText(d.Source)}, {"size", d.Size}, {"headers", headersText(d.Headers)},
	}
	fields = append(fields, byteFields("key", d.Key)...)
	return append(fields, byteFields("value", d.Value)...)
}

// textBytes is how many bytes of what is text are shown in hexadecimal as well:
// enough to see a mark before it, or a wrong encoding.
const textBytes = 64

// byteFields show bytes as text, if they are, and in hexadecimal.
func byteFields(name string, b []byte) []field {
	switch {
	case b == nil:
		return []field{{name, nil}}
	case len(b) == 0 || !isText(b):
		return []field{{name, bytesText(b)}}
	}
	dump := strings.TrimRight(hex.Dump(b[:min(len(b), textBytes)]), "\n")
	if more := len(b) - textBytes; more > 0 {
		dump += fmt.Sprintf("\n… %s more", count(int64(more), "byte"))
	}
	return []field{{name, bytesText(b)}, {name + " bytes", dump}}
}
