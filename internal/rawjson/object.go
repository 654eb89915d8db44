package rawjson

// Member is a name of an object with its value.
type Member struct {
	Name  string
	Value Value

	quoted Value // the name as it is written, if it has no text
}

// Members are those of an object, in its order. Of a name that repeats, the last
// one counts and the others are not among them.
type Members []Member

// Members returns those of an object, and nil for every other value. A name that
// has no text stands as it is written, with its quotes.
func (v Value) Members() Members {
	if v.Kind() != Object {
		return nil
	}
	var all Members
	s := Scanner{Text: v, At: 1}
	for s.Space(); s.Text[s.At] != '}'; s.Space() {
		all = append(all, s.member())
		s.Comma()
	}
	return unique(all)
}

// unique drops all but the last member of each name.
func unique(all Members) Members {
	last := make(map[string]int, len(all))
	for i := range all {
		last[all[i].Name] = i
	}
	if len(last) == len(all) {
		return all
	}
	kept := all[:0]
	for i, m := range all {
		if last[m.Name] == i {
			kept = append(kept, m)
		}
	}
	return kept
}

// Get returns the value of a name; an empty one if there is none.
func (m Members) Get(name string) Value {
	for i := range m {
		if m[i].Name == name {
			return m[i].Value
		}
	}
	return nil
}

// Items returns those of a list, and nil for every other value.
func (v Value) Items() []Value {
	if v.Kind() != List {
		return nil
	}
	var all []Value
	s := Scanner{Text: v, At: 1}
	for s.Space(); s.Text[s.At] != ']'; s.Space() {
		all = append(all, s.Value())
		s.Comma()
	}
	return all
}

// member goes past a name and its value.
func (s *Scanner) member() Member {
	var m Member
	quoted := s.Value()
	name, ok := quoted.Text()
	if !ok {
		name, m.quoted = string(quoted), quoted
	}
	s.Colon()
	m.Name, m.Value = name, s.Value()
	return m
}
