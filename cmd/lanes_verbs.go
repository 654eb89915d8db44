package cmd

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/inboxd/inboxd/admin"
)

// manyLanes is what the help of such a command says about filters.
const manyLanes = "\n\nA lane whose handler runs is not waited for: after a second the change is recorded, and it is made\n" +
	"when the handler ends. Many lanes are changed in transactions of up to 100. An interrupted command leaves\n" +
	"the rest as it is, and the same command again goes on."

func newLanesRetryCmd(a *app) *cobra.Command {
	c := &laneChange{action: admin.Retry, did: "retried"}
	cmd := c.command(a, "retry AGGREGATE… | --state stuck [--error FINGERPRINT]", "Run the heads of stuck and backing-off lanes again now",
		"Run the heads of lanes that are stuck or backing off again now, their attempts counted from zero:\n"+
			"those of the aggregates that are named, or of all lanes that the flags mean. Order is kept: what waits\n"+
			"behind a head waits on until it is done.\n\n"+
			"With --canary N, the N lanes that have waited longest are retried first, and the others only if the\n"+
			"heads of all of these succeed.")
	cmd.Flags().IntVar(&c.canary, "canary", 0, "retry `N` lanes first, and the rest only if these succeed")
	cmd.Flags().DurationVar(&c.canaryWait, "canary-wait", time.Minute, "how long the lanes of --canary may take, a `DURATION`")
	return cmd
}

func newLanesSkipCmd(a *app) *cobra.Command {
	c := &laneChange{action: admin.Skip, did: "skipped the head of"}
	cmd := c.command(a, "skip AGGREGATE --event ID --reason TEXT | --state stuck [--error FINGERPRINT] --reason TEXT",
		"Pass over the head of a lane, with a reason, on record",
		"Pass over the head of a lane, if it is the event that is named: it takes no effect, and what waits behind\n"+
			"it runs, in order. Or pass over the heads of all lanes that the flags mean, each as it was seen.\n\n"+
			"A skip is on record with its reason. While the event is kept it is undone by:\n"+
			"inboxd lanes replay AGGREGATE --from ID --reason TEXT")
	cmd.Flags().StringVar(&c.event, "event", "", "`ID` of the head to pass over")
	return cmd
}

func newLanesPauseCmd(a *app) *cobra.Command {
	c := &laneChange{action: admin.Pause, did: "paused"}
	return c.command(a, "pause AGGREGATE… --reason TEXT | --type TYPE --reason TEXT", "Have lanes wait until they are resumed",
		"Have lanes wait until they are resumed: those of the aggregates that are named, or all that the flags mean\n"+
			"and that are not idle. What runs is finished before. Their events wait, in order; new ones are stored as\n"+
			"ever.")
}

func newLanesResumeCmd(a *app) *cobra.Command {
	c := &laneChange{action: admin.Resume, did: "resumed"}
	return c.command(a, "resume AGGREGATE… | --state paused", "End the pause of lanes",
		"End the pause of lanes: they go on as they were. One that was stuck is stuck, one that was backing off waits\n"+
			"for its next attempt. Resuming a lane that waits because its event type is paused ends that pause, for\n"+
			"every lane of the type.")
}
