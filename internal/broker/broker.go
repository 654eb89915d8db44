package broker

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Config says what Start is to start.
type Config struct {
	// Dir keeps topics, records and offsets between two starts. It is made if
	// it is missing. Empty: everything is held in memory and lost at Close.
	Dir string
	// Ports are the loopback ports to listen on, one for each broker of the
	// cluster; 0 takes a free one. Empty: one broker on a free port. A Dir that
	// is used again wants as many ports as before.
	Ports []int
	// Topics are made, with so many partitions, unless they exist. Existing
	// topics are left as they are.
	Topics map[string]int32
	// Options go to the fake as they are: faults, ACLs, time-outs of groups.
	Options []kfake.Opt
}

// Broker is a running fake cluster.
type Broker struct {
	cluster *kfake.Cluster
	gate    *gate
}

// Start starts the fake and makes the topics.
func Start(cfg Config) (*Broker, error) {
	g := &gate{}
	ports := cfg.Ports
	if len(ports) == 0 {
		ports = []int{0}
	}
	opts := append([]kfake.Opt{kfake.Ports(ports...), kfake.ListenFn(g.listen)}, cfg.Options...)
	if cfg.Dir != "" {
		opts = append(opts, kfake.DataDir(cfg.Dir))
	}
	cluster, err := kfake.NewCluster(opts...)
	if err != nil {
		return nil, fmt.Errorf("start embedded broker: %w", err)
	}
	cluster.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		divideFetch(r)
		return nil, nil, false
	})
	b := &Broker{cluster: cluster, gate: g}
	if err := b.createMissing(cfg.Topics); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

func (b *Broker) createMissing(topics map[string]int32) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(topics)) {
		if b.cluster.TopicInfo(name) != nil {
			continue
		}
		if err := b.cluster.CreateTopic(name, topics[name], nil); err != nil {
			errs = append(errs, fmt.Errorf("create topic %q: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// Addr is where to connect to: host and port of each broker, with commas
// between them.
func (b *Broker) Addr() string { return strings.Join(b.Addrs(), ",") }

// Addrs is Addr as a list.
func (b *Broker) Addrs() []string { return b.cluster.ListenAddrs() }

// Cluster is the fake itself, for tests that inject faults.
func (b *Broker) Cluster() *kfake.Cluster { return b.cluster }

// Freeze makes the broker hang as a stopped process does: connections are
// accepted and stay open, and nothing is answered until Thaw.
func (b *Broker) Freeze() { b.gate.close() }

// Thaw ends a Freeze: what was sent meanwhile is answered.
func (b *Broker) Thaw() { b.gate.open() }

// Close stops the broker and, if it has a directory, leaves its state there.
func (b *Broker) Close() {
	b.gate.open()
	b.cluster.Close()
}
