package cmd

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// shellWord quotes a word for a shell if it needs it.
func shellWord(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("/._-+:@%,=", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) {
		return s
	}
	if printable(s) != s {
		return dollarQuoted(s)
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// dollarQuoted is a word with what a terminal would act on, as bash and zsh read
// it: $'…'. It may be shown and typed again.
func dollarQuoted(s string) string {
	var b strings.Builder
	b.WriteString("$'")
	for i := 0; i < len(s); i++ {
		switch r, n := utf8.DecodeRuneInString(s[i:]); {
		case s[i] == '\'' || s[i] == '\\':
			b.WriteString(`\` + s[i:i+1])
		case printable(s[i:i+n]) == s[i:i+n]:
			b.WriteRune(r)
			i += n - 1
		default:
			fmt.Fprintf(&b, `\%03o`, s[i])
		}
	}
	return b.String() + "'"
}
