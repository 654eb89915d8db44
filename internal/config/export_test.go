package config

// Variables maps every key to the name of its environment variable.
func Variables() map[string]string {
	m := map[string]string{}
	for _, k := range knownKeys {
		m[k.path] = k.variable()
	}
	return m
}

// RuleKeys are the keys that have rules.
func RuleKeys() []string {
	keys := []string{}
	for k := range rules {
		keys = append(keys, k)
	}
	for k := range needed {
		keys = append(keys, k)
	}
	return keys
}
