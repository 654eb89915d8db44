package ordering

// MaxTracked is how many lanes a processor holds in memory.
const MaxTracked = maxTracked

// Page is how many lanes a sweep reads at once.
const Page = page
