package kafka

import (
	"testing"

	"github.com/IBM/sarama"
)

var idA, idB = sarama.Uuid{1}, sarama.Uuid{2}

func TestBegin(t *testing.T) {
	at := func(offset int64, m mark) *committed { return &committed{offset: offset, mark: m} }
	for name, tt := range map[string]struct {
		had       *committed
		partition int32
		first     int32
		want      beginning
	}{
		"no offset, first start":          {nil, 1, 2, beginning{offset: 15, commit: true, mark: mark{idA, 2, false}}},
		"remembered":                      {&committed{offset: 12, mark: mark{topic: idA}, remembered: true}, 0, 0, beginning{offset: 12, commit: true, known: true, mark: mark{topic: idA}}},
		"no offset, added later":          {nil, 2, 2, beginning{offset: 10, commit: true, mark: mark{idA, 2, false}}},
		"no offset, oldest":               {nil, 0, 0, beginning{offset: 10, commit: true, mark: mark{topic: idA}}},
		"committed":                       {at(12, mark{idA, 3, false}), 0, 9, beginning{offset: 12, mark: mark{idA, 3, false}}},
		"committed by others":             {at(12, mark{}), 0, 9, beginning{offset: 12, mark: mark{topic: idA}}},
		"at the start":                    {at(10, mark{topic: idA}), 0, 0, beginning{offset: 10, mark: mark{topic: idA}}},
		"at the end":                      {at(20, mark{topic: idA}), 0, 0, beginning{offset: 20, mark: mark{topic: idA}}},
		"before the start":                {at(9, mark{topic: idA}), 0, 0, beginning{offset: 20, commit: true, stopped: true, mark: mark{topic: idA, stopped: true}}},
		"past the end":                    {at(21, mark{}), 0, 0, beginning{offset: 20, commit: true, stopped: true, mark: mark{topic: idA, stopped: true}}},
		"stopped before":                  {at(12, mark{idA, 0, true}), 0, 0, beginning{offset: 20, stopped: true, mark: mark{topic: idA, stopped: true}}},
		"of another topic":                {at(12, mark{topic: idB, first: 3}), 0, 0, beginning{offset: 10, commit: true, remade: true, mark: mark{topic: idA}}},
		"of another topic, out of range":  {at(99, mark{topic: idB}), 0, 0, beginning{offset: 10, commit: true, remade: true, mark: mark{topic: idA}}},
		"of another topic, stopped there": {at(12, mark{topic: idB, stopped: true}), 0, 0, beginning{offset: 10, commit: true, remade: true, mark: mark{topic: idA}}},
	} {
		r := reach{10, 20}
		tt.want.had, tt.want.reach = -1, r
		if tt.had != nil {
			tt.want.had = tt.had.offset
		}
		got := begin(partitionID{"t", tt.partition}, topicInfo{id: idA, partitions: 4}, tt.had, r, tt.first, 15)
		if got != tt.want {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, tt.want)
		}
	}
}

func TestBeginWithoutTopicIDs(t *testing.T) {
	had := &committed{offset: 12, mark: mark{topic: idB}}
	if got := begin(partitionID{"t", 0}, topicInfo{partitions: 4}, had, reach{10, 20}, 0, 15); got.remade || got.offset != 12 {
		t.Errorf("a broker without topic ids: %+v", got)
	}
}

func TestFirstPartitions(t *testing.T) {
	had := func(marks ...mark) map[partitionID]committed {
		all := map[partitionID]committed{{"other", 0}: {offset: 1, mark: mark{first: 1}}}
		for p, m := range marks {
			all[partitionID{"t", int32(p)}] = committed{offset: 5, mark: m}
		}
		return all
	}
	for name, tt := range map[string]struct {
		start Start
		isNew bool
		had   map[partitionID]committed
		want  int32
	}{
		"first start with oldest":            {Oldest, false, had(), 0},
		"first start with newest":            {Newest, false, had(), 6},
		"made while we run":                  {Newest, true, had(), 0},
		"begun with newest at 4":             {Newest, false, had(mark{idA, 4, false}, mark{idA, 4, false}), 4},
		"begun with newest, now oldest":      {Oldest, false, had(mark{idA, 4, false}), 4},
		"begun with oldest, now newest":      {Newest, false, had(mark{topic: idA}), 0},
		"begun by others":                    {Newest, false, had(mark{}), 0},
		"offsets are of the topic before it": {Newest, false, had(mark{idB, 4, false}, mark{idA, 4, false}), 0},
	} {
		if got := firstPartitions("t", topicInfo{id: idA, partitions: 6}, tt.start, tt.isNew, tt.had); got != tt.want {
			t.Errorf("%s: %d instead of %d", name, got, tt.want)
		}
	}
}

func TestMark(t *testing.T) {
	for _, m := range []mark{{}, {topic: idA}, {idB, 7, true}, {stopped: true}, {first: 1}} {
		if got := parseMark(m.String()); got != m {
			t.Errorf("%q became %+v", m, got)
		}
	}
	for _, s := range []string{"", "someone else's stopped", "inboxd topic=%% first=x later=1", "inboxd"} {
		if got := parseMark(s); got != (mark{}) {
			t.Errorf("%q became %+v", s, got)
		}
	}
	if n := len(mark{idB, 1 << 30, true}.String()); n > 100 {
		t.Errorf("a mark has %d bytes", n)
	}
}

func TestTopicsRememberWhatTheySaw(t *testing.T) {
	ts := newTopics([]string{"a", "b"})
	see := func(infos map[string]topicInfo) error { return ts.note(infos, nil) }
	both := map[string]topicInfo{"a": {idA, 1}, "b": {idB, 2}}

	if err := see(map[string]topicInfo{"a": {idA, 1}}); err != nil || ts.isNew("a") || !ts.isNew("b") {
		t.Fatalf("at first: %v, new %v %v", err, ts.isNew("a"), ts.isNew("b"))
	}
	if d := ts.difference(map[string]topicInfo{"a": {idA, 1}}, both); d != `topic "b" has come` {
		t.Errorf("difference %q", d)
	}
	only := map[string]topicInfo{"b": {idB, 2}}
	_ = see(only)
	if d := ts.difference(both, only); d != "" {
		t.Errorf("missing once: %q", d)
	}
	_ = see(only)
	if d := ts.difference(both, only); d != `topic "a" has gone` {
		t.Errorf("missing twice: %q", d)
	}
	remade := map[string]topicInfo{"a": {sarama.Uuid{3}, 1}, "b": {idB, 1}}
	if err := see(remade); err != nil || !ts.isNew("a") {
		t.Errorf("made again: %v, new %v", err, ts.isNew("a"))
	}
	if d := ts.difference(both, remade); d != `topic "a" was deleted and made again` {
		t.Errorf("difference %q", d)
	}
	if err := see(both); err == nil {
		t.Error("a broker that is behind was believed")
	}
	if d := ts.difference(map[string]topicInfo{"b": {idB, 1}}, map[string]topicInfo{"b": {idB, 2}}); d != `topic "b" has 2 partitions instead of 1` {
		t.Errorf("difference %q", d)
	}
	if d := ts.difference(only, map[string]topicInfo{"b": {idB, 1}}); d != "" {
		t.Errorf("fewer partitions: %q", d)
	}
}
