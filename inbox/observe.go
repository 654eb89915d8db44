package inbox

// Partition names a partition of a topic.
type Partition struct {
	Topic  string
	Number int32
}

// byPartition counts a batch's records apart for each partition that they came
// from.
type byPartition map[Partition]*Counts

// of answers where records from src are counted.
func (b byPartition) of(src Source) *Counts {
	p := Partition{src.Topic, src.Partition}
	c := b[p]
	if c == nil {
		c = &Counts{}
		b[p] = c
	}
	return c
}

// total is all of it.
func (b byPartition) total() (sum Counts) {
	for _, c := range b {
		sum = sum.Plus(*c)
	}
	return sum
}

// tell calls observe, if there is one, for each partition.
func (b byPartition) tell(observe func(Partition, Counts)) {
	if observe == nil {
		return
	}
	for p, c := range b {
		observe(p, *c)
	}
}
