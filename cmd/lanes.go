package cmd

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inboxd/inboxd/admin"
)

func newLanesCmd(a *app) *cobra.Command {
	return noun("lanes", "See what waits, and put it right in order",
		newLanesListCmd(a), newLanesShowCmd(a), newLanesRetryCmd(a), newLanesSkipCmd(a),
		newLanesReplayCmd(a), newLanesDryRunCmd(a), newLanesPauseCmd(a), newLanesResumeCmd(a))
}

func newLanesListCmd(a *app) *cobra.Command {
	var f admin.Filter
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List lanes: what waits, for how long, behind what, why",
		Long: "List lanes, the most urgent first: stuck, paused, waiting, backoff, running, ready; in each state those\n" +
			"that have waited longest. Idle lanes, which have nothing to run, are listed with --state idle only.",
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.operate(cmd.Context(), func(ops *admin.Admin) error { return a.listLanes(cmd.Context(), ops, f) })
		},
	}
	a.addFilterFlags(cmd, &f, admin.States())
	a.addOutputFlag(cmd)
	return cmd
}

// addFilterFlags gives a command the flags that say which lanes are meant.
func (a *app) addFilterFlags(cmd *cobra.Command, f *admin.Filter, states []admin.State) {
	words := make([]string, len(states))
	for i, s := range states {
		words[i] = string(s)
	}
	choice := &choiceFlag{choices: words, chosen: func(s string) { f.State = admin.State(s) }}
	cmd.Flags().Var(choice, "state", "lanes in this `STATE`: "+strings.Join(words, ", "))
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	cmd.Flags().StringVar(&f.Error, "error", "", "lanes whose head's last error has this `FINGERPRINT`")
	cmd.Flags().StringVar(&f.Type, "type", "", "lanes whose head has this event `TYPE`")
	cmd.Flags().DurationVar(&f.OlderThan, "older-than", 0, "lanes that have waited for at least this `DURATION`, such as 90m")
	addLimitFlag(cmd, &f.Limit, "lanes")
	a.completeErrors(cmd, "error")
	a.completeTypes(cmd, "type")
}

// choiceFlag is a flag that takes one of some words.
type choiceFlag struct {
	choices []string
	chosen  func(string)
	text    string
}

func (c *choiceFlag) String() string { return c.text }
func (c *choiceFlag) Type() string   { return "WORD" }

// Set makes it a flag's value.
func (c *choiceFlag) Set(s string) error {
	for _, choice := range c.choices {
		if s == choice {
			c.text = s
			c.chosen(s)
			return nil
		}
	}
	words, last := "", len(c.choices)-1
	if last > 0 {
		words = strings.Join(c.choices[:last], ", ") + " or "
	}
	return fmt.Errorf("it must be %s%s", words, c.choices[last])
}

func (a *app) listLanes(ctx context.Context, ops *admin.Admin, f admin.Filter) error {
	return bounded[admin.Lane]{
		listing: listing[admin.Lane]{columns: laneColumns, noun: "lanes"},
		from: func(limit int) iter.Seq2[admin.Lane, error] {
			f.Limit = limit
			return ops.Lanes(ctx, f)
		},
		count: func() (int, error) { return ops.CountLanes(ctx, f) },
	}.write(a, f.Limit)
}

var laneColumns = []column[admin.Lane]{
	{head: "aggregate", cell: func(l admin.Lane) any { return l.AggregateID }},
	{head: "state", cell: func(l admin.Lane) any { return string(l.State) }},
	{head: "for", cell: laneAge},
	{head: "pending", cell: func(l admin.Lane) any { return l.Pending }},
	{head: "tries", cell: func(l admin.Lane) any { return l.Attempts }},
	{head: "head", cell: laneHead, flex: true},
	{head: "why", cell: laneWhy, flex: true},
}

func laneAge(l admin.Lane) any {
	if l.Since == nil {
		return nil
	}
	return admin.Age(l.AsOf.Sub(*l.Since))
}

func laneHead(l admin.Lane) any {
	if l.Head == nil {
		return nil
	}
	return withMark(l.Head.EventType, l.Head.EditedAt)
}

// laneWhy says in a few words what holds a lane.
func laneWhy(l admin.Lane) any {
	switch {
	case l.State == admin.Paused && l.PausedType != nil && l.PausedReason != nil:
		return "by its breaker: " + errorLine(*l.PausedReason)
	case l.State == admin.Paused && l.PausedBy != nil && l.PausedReason != nil:
		return "by " + *l.PausedBy + ": " + firstLine(*l.PausedReason)
	case l.Error == nil:
		return nil
	case l.State == admin.Backoff && l.NextAttemptAt != nil:
		return "again in " + admin.Age(l.NextAttemptAt.Sub(l.AsOf)) + ": " + errorLine(l.Error.Message)
	}
	return errorLine(l.Error.Message)
}

// errorLine is what a narrow column has of an error. Each of PostgreSQL begins
// with the same word.
func errorLine(message string) string {
	return strings.TrimPrefix(firstLine(message), "ERROR: ")
}
