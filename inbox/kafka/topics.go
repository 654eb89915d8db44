package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

// errTopicsChanged ends a session whose topics are no longer what they were
// when it began.
var errTopicsChanged = errors.New("topics have changed")

// topics remembers what this process has seen of its topics.
type topics struct {
	names    []string // that the configuration names
	patterns []pattern

	mu      sync.Mutex
	looked  bool // at least once
	seen    map[string]*seenTopic
	refused map[string]error // names and patterns for which there is no topic, and why
}

type seenTopic struct {
	id      sarama.Uuid
	past    map[sarama.Uuid]bool // ids that the topic had before
	new     bool                 // it was made, or made anew, while this process ran
	missing int                  // how often in a row it was not there
}

// newTopics takes what validate has found to be right.
func newTopics(configured []string) *topics {
	t := &topics{seen: map[string]*seenTopic{}}
	for _, s := range configured {
		if p, err := parseTopic(s); p != nil && err == nil {
			t.patterns = append(t.patterns, *p)
		} else {
			t.names = append(t.names, s)
		}
	}
	return t
}

// lookUp asks which topics there are and remembers it.
func (t *topics) lookUp(c *control) (map[string]topicInfo, error) {
	infos, refused, err := t.ask(c)
	if err != nil {
		return nil, err
	}
	return infos, t.note(infos, refused)
}

// ask is lookUp without remembering.
func (t *topics) ask(c *control) (found map[string]topicInfo, refused map[string]error, err error) {
	if len(t.patterns) == 0 {
		return c.topics(t.names)
	}
	all, refused, err := c.topics(nil)
	if err != nil {
		return nil, nil, err
	}
	found, refused = t.choose(all, refused)
	return found, refused, nil
}

// note remembers an answer, or says why it is not to be believed.
func (t *topics) note(infos map[string]topicInfo, refused map[string]error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refused = refused
	for _, name := range t.known(infos) {
		info, exists := infos[name]
		s := t.seen[name]
		switch {
		case s == nil:
			s = &seenTopic{id: info.id, new: !exists || t.looked, past: map[sarama.Uuid]bool{}}
			t.seen[name] = s
		case !exists || s.id == info.id:
		case s.past[info.id]:
			return fmt.Errorf("topic %q: the broker still tells of one that was deleted", name)
		default:
			s.new = s.new || s.id != (sarama.Uuid{})
			s.past[s.id] = true
			s.id = info.id
		}
		s.missing++
		if exists {
			s.missing = 0
		}
	}
	t.looked = true
	return nil
}

// known are the topics that are configured by name, that there are or that were
// seen before.
func (t *topics) known(infos map[string]topicInfo) []string {
	names := slices.Concat(t.names, slices.Collect(maps.Keys(infos)), slices.Collect(maps.Keys(t.seen)))
	slices.Sort(names)
	return slices.Compact(names)
}

// isNew reports whether the topic was made, or made anew, while this process ran.
func (t *topics) isNew(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seen[name] != nil && t.seen[name].new
}

// difference says in what the topics are no longer those that a session began
// with; "" if in nothing. A topic must be missing twice, and partitions do not
// become fewer: a broker may be behind the others with its answer.
func (t *topics) difference(began, now map[string]topicInfo) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range t.known(now) {
		then, was := began[name]
		info, is := now[name]
		switch {
		case is && !was:
			return fmt.Sprintf("topic %q has come", name)
		case was && !is && t.seen[name].missing > 1:
			return fmt.Sprintf("topic %q has gone", name)
		case was && is && then.id != info.id:
			return fmt.Sprintf("topic %q was deleted and made again", name)
		case was && is && info.partitions > then.partitions:
			return fmt.Sprintf("topic %q has %d partitions instead of %d", name, info.partitions, then.partitions)
		}
	}
	return ""
}

// missing are the topics that the broker did not describe, with the reason.
func (t *topics) missing() map[string]error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.refused)
}

// awaitTopics waits until the broker answers and at least one topic exists. It
// returns nil when ctx is done.
func (s *Source) awaitTopics(ctx context.Context) map[string]topicInfo {
	retry := newBackoff(250*time.Millisecond, 5*time.Second)
	for ctx.Err() == nil {
		s.renew()
		infos, err := s.topics.lookUp(s.control)
		if err != nil {
			s.trouble("broker", "The broker does not say which topics there are. It is asked again until it does.", err)
		} else {
			s.better("broker", "The broker answers again.")
			s.reportMissing()
			if len(infos) > 0 {
				return infos
			}
		}
		sleep(ctx, retry.NextBackOff())
	}
	return nil
}

func (s *Source) reportMissing() {
	for name, reason := range s.topics.missing() {
		if _, ok := s.often.allow("missing " + name); ok {
			s.log.Warn("A topic cannot be read. It is waited for, while the others are read; create it, let this user read it, or correct the configuration.",
				"topic", name, "group", s.cfg.Group, "reason", reason)
		}
	}
}

// lookAtTopics makes watch look at the topics now. It does not block.
func (s *Source) lookAtTopics() {
	select {
	case s.look <- struct{}{}:
	default:
	}
}

// watch looks at the topics for as long as a session lasts, and returns when
// they have changed or ctx is done. It also keeps the ends of the partitions up
// to date, which lag is measured to.
func (s *Source) watch(ctx context.Context, began map[string]topicInfo) error {
	tick := time.NewTicker(s.cfg.TopicRefresh)
	defer tick.Stop()
	for {
		if s.passwordChanged() {
			s.log.Info("The password has changed; the group is joined anew with it.", "group", s.cfg.Group)
			return errPasswordChanged
		}
		now, err := s.topics.lookUp(s.control)
		if err != nil {
			s.trouble("broker", "The broker does not say which topics there are. It is asked again until it does.", err)
		} else {
			s.better("broker", "The broker answers again.")
			s.reportMissing()
			if diff := s.topics.difference(began, now); diff != "" {
				s.log.Info("The topics have changed; the group is joined anew.", "change", diff, "group", s.cfg.Group)
				return errTopicsChanged
			}
			s.measure()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-s.look:
			sleep(ctx, 100*time.Millisecond) // what made us look may come many times
		}
	}
}

// measure asks for the last stable offsets of the session's partitions.
func (s *Source) measure() {
	sess := s.current()
	if sess == nil {
		return
	}
	ids := sess.queue.ids()
	ends, err := s.control.offsets(ids, sarama.OffsetNewest, sarama.ReadCommitted)
	if err != nil {
		s.trouble("measure", "The ends of the partitions are not known; their lag is of an earlier time.", err)
		return
	}
	s.better("measure", "The ends of the partitions are known again.")
	sess.queue.setEnds(ends)
	for _, id := range ids {
		sess.queue.setMeter(id, s.meterOf(id)) // its leader may have moved
	}
	s.passEmpty(sess)
}

func names(infos map[string]topicInfo) []string { return slices.Sorted(maps.Keys(infos)) }
