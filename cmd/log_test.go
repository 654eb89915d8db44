package cmd

import (
	"bytes"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"testing"

	"github.com/lmittmann/tint"
)

// TestLogsDriveNoTerminal: an id or an error message that came from elsewhere
// reaches the terminal without what it would act on, coloured or not.
func TestLogsDriveNoTerminal(t *testing.T) {
	t.Parallel()
	const evil = "a\x1b]0;x\a\nb\u009b2J"
	for _, plain := range []bool{true, false} {
		var out bytes.Buffer
		log := slog.New(tint.NewTextHandler(&out, &tint.Options{NoColor: plain, ReplaceAttr: withoutEscapes}))
		log.With("lane", evil).WithGroup("of").Error("stuck "+evil, "event", evil, "error", errors.New(evil), "ids", []string{evil}, "quoted", strconv.Quote(evil),
			slog.Group("more", "type", evil))
		text := out.String()
		for _, colour := range []string{"\x1b[0m", "\x1b[2m", "\x1b[91m", "\x1b[22m", "\x1b[2;91m"} {
			text = strings.ReplaceAll(text, colour, "")
		}
		if strings.ContainsAny(text, "\x1b\a\u009b") || strings.Count(text, "\n") != 1 {
			t.Errorf("plain %v: %q", plain, text)
		}
		if strings.Count(text, "a␛]0;x") != 6 || !strings.Contains(text, `stuck a\x1b]0;x`) {
			t.Errorf("plain %v: what came is not shown: %q", plain, text)
		}
	}
}
