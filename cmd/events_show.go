package cmd

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/inboxd/inboxd/admin"
	"github.com/inboxd/inboxd/inbox"
)

func newEventsShowCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show one event with its payload",
		Args:  exactArgs("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.operate(cmd.Context(), func(ops *admin.Admin) error {
				d, err := ops.Event(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return a.show(d, eventFields(d), func(b *bytes.Buffer) { a.writeFailures(b, d.Failures) })
			})
		},
	}
	a.addOutputFlag(cmd)
	return cmd
}

func eventFields(d *admin.EventDetail) []field {
	became := "waits"
	switch {
	case d.SkippedAt != nil:
		became = "skipped at " + cellText(*d.SkippedAt)
	case d.ProcessedAt != nil:
		became = "processed at " + cellText(*d.ProcessedAt)
	}
	if d.Attempts > 0 {
		became += " after " + count(int64(d.Attempts), "attempt")
	}
	fields := []field{
		{"event", printable(d.EventID)}, {"aggregate", printable(d.AggregateID)}, {"type", printable(d.EventType)}, {"position", d.Position},
		{"received", d.ReceivedAt}, {"occurred", d.OccurredAt}, {"fate", became},
		{"source", sourceText(d.Source)}, {"headers", headersText(d.Headers)},
	}
	if d.Edit == nil {
		return append(fields, field{"payload", payloadText(d, 0)})
	}
	words := fmt.Sprintf("at %s by %s: %s", cellText(d.Edit.At), d.Edit.Actor, d.Edit.Reason)
	return append(fields, field{"edited", wrapped(words, len("aggregate")+columnGap)},
		field{"payload", payloadText(d, 0)}, field{"original", jsonText(d.Original)})
}

var failureColumns = []column[admin.EventFailure]{
	{head: "at", cell: func(f admin.EventFailure) any { return f.At }},
	{head: "try", cell: func(f admin.EventFailure) any { return f.Attempt }},
	{head: "fingerprint", cell: func(f admin.EventFailure) any { return f.Fingerprint }},
	{head: "error", cell: func(f admin.EventFailure) any { return errorLine(f.Message) }, flex: true},
}

// writeFailures writes the failed attempts of an event, the last one in full.
func (a *app) writeFailures(b *bytes.Buffer, failures []admin.EventFailure) {
	if len(failures) == 0 {
		return
	}
	section(b, "Failed attempts")
	b.Write(tableOf(failureColumns, failures, a.colourful(a.stdout)))
	section(b, "The last of them")
	last := failures[len(failures)-1]
	details := map[string]any{}
	_ = json.Unmarshal(last.Detail, &details) // null is no detail
	names := slices.Sorted(maps.Keys(details))
	width := len("process")
	for _, name := range names {
		width = max(width, len(name))
	}
	fields := []field{{"error", wrapped(last.Message, width+columnGap)}, {"process", processText(last)}}
	for _, name := range names {
		fields = append(fields, field{name, detailText(details[name])})
	}
	writeFields(b, fields)
}

// processText names the process that ran an attempt.
func processText(f admin.EventFailure) string {
	name := fmt.Sprintf("%d, which is gone", f.ProcessID)
	if f.Process != nil {
		name = fmt.Sprintf("%d, %s", f.ProcessID, *f.Process)
	}
	if f.Died {
		name += "; it ended, or lost its connection, during the attempt"
	}
	return name
}

// detailText is a detail of a failure for people; a list is a chain.
func detailText(v any) string {
	list, ok := v.([]any)
	if !ok {
		return fmt.Sprint(v)
	}
	words := make([]string, len(list))
	for i, item := range list {
		words[i] = fmt.Sprint(item)
	}
	return strings.Join(words, "\n")
}

// sourceText is a place in Kafka: topic, partition, offset.
func sourceText(s *admin.Source) any {
	if s == nil {
		return nil
	}
	return fmt.Sprintf("%s/%d/%d", s.Topic, s.Partition, s.Offset)
}

func headersText(headers admin.Headers) any {
	object := inbox.HeaderObject(headers)
	if len(object) == 0 {
		return nil
	}
	lines := make([]string, 0, len(object))
	for _, name := range slices.Sorted(maps.Keys(object)) {
		lines = append(lines, name+": "+object[name])
	}
	return strings.Join(lines, "\n")
}

// payloadText is a payload for people: JSON indented, its numbers as they came.
// It has most lines, if most is not 0.
func payloadText(d *admin.EventDetail, most int) string {
	text := jsonText(d.Payload)
	if lines := strings.SplitAfter(text, "\n"); most > 0 && len(lines) > most {
		text = strings.Join(lines[:most], "") + "… see: inboxd events show " + d.EventID
	}
	return text
}

// jsonText is bytesText, JSON indented.
func jsonText(payload []byte) string {
	var b bytes.Buffer
	if utf8.Valid(payload) && json.Valid(payload) && json.Indent(&b, payload, "", "  ") == nil {
		return b.String()
	}
	return bytesText(payload)
}

// bytesText is text as it is, and other bytes in hexadecimal.
func bytesText(b []byte) string {
	switch {
	case len(b) == 0:
		return "(empty)"
	case isText(b):
		return string(b)
	case len(b) <= 4096:
		return strings.TrimRight(hex.Dump(b), "\n")
	}
	return strings.TrimRight(hex.Dump(b[:4096]), "\n") +
		fmt.Sprintf("\n… %s more bytes; -o json has all, in base64 of %s", thousands(int64(len(b)-4096)), thousands(int64(base64.StdEncoding.EncodedLen(len(b)))))
}

// isText reports whether bytes can be shown as they are.
func isText(b []byte) bool {
	control := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' }
	return utf8.Valid(b) && !bytes.ContainsFunc(b, control)
}
