package admin

// Progress says how far a change of many things has come.
type Progress struct {
	// Done of them were changed.
	Done int
	// Left were no longer as they were seen when their turn came, or somebody
	// else was changing them; they are as they were.
	Left int
}
