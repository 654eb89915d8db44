package doctor

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/inboxd/inboxd/inbox/kafka"
	"github.com/inboxd/inboxd/internal/service"
)

// kafkaLimit is how many times the limit of a check one look at Kafka may take: it
// asks several brokers, one after the other.
const kafkaLimit = 2

// kafka looks at the cluster once, for three checks.
func (e *examiner) kafka(ctx context.Context) []Result {
	k := e.Config.Kafka
	if len(k.Topics) == 0 {
		return []Result{check{name: "kafka"}.result(fine("not looked at: no topics are configured (kafka.topics)"))}
	}
	brokers := check{name: "kafka brokers"}
	cfg, err := service.KafkaConfig(e.Config, slog.New(slog.DiscardHandler))
	if err != nil {
		return []Result{brokers.result(fail("inboxd config validate", "%s", firstLine(err.Error())))}
	}
	limited, cancel := context.WithTimeout(ctx, kafkaLimit*e.Limit)
	defer cancel()
	found, err := kafka.Inspect(limited, cfg)
	if err != nil {
		return []Result{brokers.result(fail("inboxd config print", "no broker of %s answers: %s",
			strings.Join(k.Brokers, ", "), firstLine(err.Error())))}
	}
	return []Result{
		brokers.result(fine("%s, reached by %s", count(found.Brokers, "broker"), strings.Join(k.Brokers, ", "))),
		check{name: "kafka topics"}.result(judgeTopics(k.Brokers[0], found)),
		check{name: "kafka group"}.result(judgeGroup(k.Brokers[0], k.Group, found)),
	}
}

func judgeTopics(broker string, found *kafka.Inspection) finding {
	var wrong, remedies []string
	for _, name := range slices.Sorted(maps.Keys(found.Missing)) {
		wrong = append(wrong, fmt.Sprintf("%s cannot be read: %s", name, found.Missing[name]))
		remedy := "kafka-topics.sh --bootstrap-server " + broker + " --create --topic " + shellWord(name)
		if strings.HasPrefix(name, "^") { // a pattern is no name to give to a topic
			remedy = "kafka-topics.sh --bootstrap-server " + broker + " --list"
		}
		remedies = append(remedies, remedy)
	}
	if len(wrong) > 0 {
		return fail(strings.Join(remedies, "\n"), "%s", strings.Join(wrong, "; "))
	}
	partitions := 0
	for _, t := range found.Topics {
		partitions += t.Partitions
		if t.Leaderless > 0 {
			wrong = append(wrong, fmt.Sprintf("%s of %s %s no leader", count(t.Leaderless, "partition"), t.Name, agree(t.Leaderless, "has", "have")))
			remedies = append(remedies, "kafka-topics.sh --bootstrap-server "+broker+" --describe --topic "+shellWord(t.Name))
		}
	}
	if len(wrong) > 0 {
		return warn(strings.Join(remedies, "\n"), "%s", strings.Join(wrong, "; "))
	}
	return fine("%s with %s", count(len(found.Topics), "topic"), count(partitions, "partition"))
}

func judgeGroup(broker, group string, found *kafka.Inspection) finding {
	describe := "kafka-consumer-groups.sh --bootstrap-server " + broker + " --describe --group " + shellWord(group)
	if found.GroupError != nil {
		return warn(describe, "nothing is known of group %s: %s", group, firstLine(found.GroupError.Error()))
	}
	var lag int64
	var unread int
	var stopped, remedies []string
	for _, t := range found.Topics {
		lag, unread = lag+t.Lag, unread+t.Unread
		for _, p := range t.Stopped {
			stopped = append(stopped, fmt.Sprintf("%s/%d", t.Name, p))
			remedies = append(remedies, fmt.Sprintf("inboxd sources reset --topic %s --partition %d --to oldest", shellWord(t.Name), p))
		}
	}
	state := strings.ToLower(found.GroupState)
	if state == "dead" || state == "" { // Kafka's word for a group that it does not know
		state = "new"
	}
	text := fmt.Sprintf("%s is %s with %s, %d behind", group, state, count(found.Members, "member"), lag)
	if unread > 0 {
		text += fmt.Sprintf(", %s not read yet", count(unread, "partition"))
	}
	switch {
	case len(stopped) > 0:
		return fail(strings.Join(remedies, "\n"), "the offset of the group is not in the log, and is not read on from by itself: %s", strings.Join(stopped, ", "))
	case found.Members == 0 && (lag > 0 || unread > 0):
		return warn("inboxd serve", "%s; nobody reads", text)
	}
	return fine("%s", text)
}
