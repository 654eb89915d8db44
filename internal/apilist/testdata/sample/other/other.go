// Package other is imported by the sample.
package other

// Thing is embedded.
type Thing struct{ Weight int }

// Lift is listed here, not where Thing is embedded.
func (Thing) Lift() {}
