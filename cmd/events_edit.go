package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/inboxd/inboxd/admin"
)

// editFlags are what events edit was asked for.
type editFlags struct {
	payload string
	revert  bool
	by      admin.By
}

func newEventsEditCmd(a *app) *cobra.Command {
	var f editFlags
	cmd := &cobra.Command{
		Use:   "edit ID --payload FILE --reason TEXT | --revert",
		Short: "Put another payload in the place of an event's own",
		Long: "Put the payload in FILE (- is stdin) in the place of an event's own, which stays beside it, while the event\n" +
			"is unprocessed. Its place in order stays what it is. --revert, or a payload that is the event's own, takes\n" +
			"the edit back. Of JSON, a line break at the end is left out; all other bytes are taken as they are.\n\n" +
			"An edit is refused once the event was processed, and while a handler of its lane runs for more than a second.",
		Args: exactArgs("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			f.by.Actor = a.actorOr(f.by.Actor)
			if f.revert {
				return a.operate(cmd.Context(), func(ops *admin.Admin) error {
					return a.edited(ops.Revert(cmd.Context(), f.by, args[0]))
				})
			}
			payload, err := a.readPayload(f.payload)
			if err != nil {
				return err
			}
			return a.operate(cmd.Context(), func(ops *admin.Admin) error {
				return a.editEvent(cmd.Context(), ops, f.by, args[0], payload)
			})
		},
	}
	cmd.Flags().StringVar(&f.payload, "payload", "", "`FILE` with the payload to run with; - is stdin")
	cmd.Flags().BoolVar(&f.revert, "revert", false, "run with the event's own payload again")
	cmd.Flags().StringVar(&f.by.Reason, "reason", "", "`TEXT` for the audit")
	a.addActorFlag(cmd, &f.by.Actor)
	return cmd
}

func (f *editFlags) check(cmd *cobra.Command) error {
	switch {
	case f.revert && f.payload != "":
		return wrongUse("%s takes --payload or --revert, not both", cmd.CommandPath())
	case f.revert:
		return nil
	case f.payload == "":
		return wrongUse("%s is missing --payload, or --revert", cmd.CommandPath()).
			withHint("see what it runs with now: inboxd events show ID")
	case strings.TrimSpace(f.by.Reason) == "":
		return wrongUse("%s is missing --reason, which stays on record", cmd.CommandPath())
	}
	return nil
}

// readPayload reads a payload; of JSON it leaves out the line break at the end.
func (a *app) readPayload(file string) ([]byte, error) {
	var payload []byte
	var err error
	if isStdin(file) {
		payload, err = io.ReadAll(a.stdin)
	} else {
		payload, err = os.ReadFile(file)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, notFound("there is no file %s", file).withHint("name a file that holds the payload, or - for stdin")
	case err != nil:
		return nil, failed("the payload cannot be read: %w", err)
	case utf8.Valid(payload) && json.Valid(payload):
		payload = bytes.TrimRight(payload, "\r\n")
	}
	return payload, nil
}

func (a *app) editEvent(ctx context.Context, ops *admin.Admin, by admin.By, id string, payload []byte) error {
	e, err := ops.Edit(ctx, by, id, payload)
	if err == nil && e.NoLongerJSON {
		a.say("warning: the original payload is JSON, and the new one is not")
	}
	return a.edited(e, err)
}

// edited says what became of an edit.
func (a *app) edited(e admin.Edited, err error) error {
	if err != nil {
		return err
	}
	name := printable(e.EventType) + " " + printable(e.EventID)
	switch e.Outcome {
	case admin.PayloadEdited:
		a.say("%s of %s runs with the new payload", name, printable(e.AggregateID))
	case admin.PayloadReverted:
		a.say("%s of %s runs with its own payload again", name, printable(e.AggregateID))
	default:
		a.say("%s of %s has this payload already; nothing was changed", name, printable(e.AggregateID))
	}
	return nil
}
