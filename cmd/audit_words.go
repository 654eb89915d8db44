package cmd

import (
	"encoding/json"
	"fmt"

	"github.com/inboxd/inboxd/admin"
)

// auditDetail is what details of changes have in common.
type auditDetail struct {
	// Of a change that was recorded while a handler ran, and did not fit any more
	// when it ended.
	Action string `json:"action"`
	Why    string `json:"why"`
	// Of a breaker.
	EventType string `json:"event_type"`
	// Of a record in quarantine, and of offsets.
	ID        int64  `json:"id"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    *int64 `json:"offset"`
	Group     string `json:"group"`
}

func detailOf(e admin.AuditEntry) auditDetail {
	var d auditDetail
	_ = json.Unmarshal(e.Detail, &d) // what is not there is not said
	return d
}

// auditWhat is what was done; of a change that was not made, what it was.
func auditWhat(e admin.AuditEntry) any {
	if d := detailOf(e); e.Action == "refused" && d.Action != "" {
		return "no " + d.Action
	}
	return e.Action
}

// auditWhy is why it was done, behind what the other columns do not say of it.
func auditWhy(e admin.AuditEntry) any {
	about := auditAbout(e.Action, detailOf(e))
	switch {
	case about == "":
		return e.Reason
	case e.Reason == nil:
		return about
	}
	return about + ": " + *e.Reason
}

func auditAbout(action string, d auditDetail) string {
	switch action {
	case "refused":
		return "not made, " + whyNot(d.Why)
	case "breaker-open", "breaker-close":
		return d.EventType
	case "requeue", "discard":
		if d.Offset == nil {
			return fmt.Sprintf("record %d", d.ID)
		}
		return fmt.Sprintf("record %d, %s/%d/%d", d.ID, d.Topic, d.Partition, *d.Offset)
	case "reset":
		return d.Topic + " of " + d.Group
	}
	return ""
}

// whyNot says why a recorded change was not made; the migrations have the codes.
func whyNot(code string) string {
	switch code {
	case "moved":
		return "its event was processed or skipped meanwhile"
	case "nothing":
		return "there was nothing to do any more"
	case "paused":
		return "the lane was paused"
	case "gone":
		return "its event is not kept any more"
	}
	return firstOf(code, "it did not fit any more")
}
