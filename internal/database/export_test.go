package database

// Settle and the settings that it sets, for a server that does not know one.
var (
	Settle  = settle
	Needed  = needed
	Welcome = welcome
)
