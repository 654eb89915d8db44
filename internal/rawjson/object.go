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
	s := scanner{text: v, at: 1}
	for s.space(); s.text[s.at] != '}'; s.space() {
		all = append(all, s.member())
		s.comma()
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
	s := scanner{text: v, at: 1}
	for s.space(); s.text[s.at] != ']'; s.space() {
		all = append(all, s.value())
		s.comma()
	}
	return all
}

// member goes past a name and its value.
func (s *scanner) member() Member {
	var m Member
	quoted := s.value()
	name, ok := quoted.Text()
	if !ok {
		name, m.quoted = string(quoted), quoted
	}
	s.space()
	s.at++ // the colon
	s.space()
	m.Name, m.Value = name, s.value()
	return m
}

// scanner goes once through valid JSON; it need not check what it reads.
type scanner struct {
	text []byte
	at   int
}

// value goes past the value at s.at, however deep it is, and returns it.
func (s *scanner) value() Value {
	start := s.at
	for depth := 0; ; {
		switch s.text[s.at] {
		case '{', '[':
			depth++
			s.at++
		case '}', ']':
			depth--
			s.at++
		case '"':
			s.string()
		case ' ', '\t', '\n', '\r', ',', ':':
			s.at++
		default:
			s.word()
		}
		if depth == 0 {
			return Value(s.text[start:s.at])
		}
	}
}

func (s *scanner) string() {
	for s.at++; s.text[s.at] != '"'; s.at++ {
		if s.text[s.at] == '\\' {
			s.at++
		}
	}
	s.at++
}

// word goes past a number, true, false or null.
func (s *scanner) word() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\n', '\r', ',', ':', '}', ']':
			return
		}
		s.at++
	}
}

func (s *scanner) comma() {
	s.space()
	if s.text[s.at] == ',' {
		s.at++
	}
}

func (s *scanner) space() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}
