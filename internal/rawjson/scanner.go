package rawjson

// Scanner goes once through valid JSON; it need not check what it reads.
type Scanner struct {
	Text []byte
	At   int // where it is in Text
}

// Value goes past the value that it is at, however deep it is, and returns it.
func (s *Scanner) Value() Value {
	start := s.At
	for depth := 0; ; {
		switch s.Text[s.At] {
		case '{', '[':
			depth++
			s.At++
		case '}', ']':
			depth--
			s.At++
		case '"':
			s.string()
		case ' ', '\t', '\n', '\r', ',', ':':
			s.At++
		default:
			s.word()
		}
		if depth == 0 {
			return Value(s.Text[start:s.At])
		}
	}
}

func (s *Scanner) string() {
	for s.At++; s.Text[s.At] != '"'; s.At++ {
		if s.Text[s.At] == '\\' {
			s.At++
		}
	}
	s.At++
}

// word goes past a number, true, false or null.
func (s *Scanner) word() {
	for s.At < len(s.Text) {
		switch s.Text[s.At] {
		case ' ', '\t', '\n', '\r', ',', ':', '}', ']':
			return
		}
		s.At++
	}
}

// Colon goes past the colon after a name, and to the value.
func (s *Scanner) Colon() {
	s.Space()
	s.At++
	s.Space()
}

// Comma goes past the comma after a value, if there is one.
func (s *Scanner) Comma() {
	s.Space()
	if s.Text[s.At] == ',' {
		s.At++
	}
}

// Space goes past the space that it is at.
func (s *Scanner) Space() {
	for s.At < len(s.Text) {
		switch s.Text[s.At] {
		case ' ', '\t', '\n', '\r':
			s.At++
		default:
			return
		}
	}
}
