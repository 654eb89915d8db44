package broker

import (
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// divideFetch turns the limit of a whole answer into limits of its partitions. The
// fake does not say which transactions were aborted of the partition at which an
// answer is full, so that a client would take their records for committed; of a
// partition that has reached its own limit it does.
func divideFetch(r kmsg.Request) {
	req, ok := r.(*kmsg.FetchRequest)
	if !ok {
		return
	}
	partitions := int32(0)
	for i := range req.Topics {
		partitions += int32(len(req.Topics[i].Partitions))
	}
	if partitions == 0 { // the fake remembers them of an earlier request
		return
	}
	share := max(1, req.MaxBytes/partitions)
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			p := &req.Topics[i].Partitions[j]
			p.PartitionMaxBytes = min(p.PartitionMaxBytes, share)
		}
	}
	req.MaxBytes = math.MaxInt32
}
