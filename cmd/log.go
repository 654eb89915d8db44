package cmd

import (
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/lmittmann/tint"
	"github.com/mattn/go-isatty"
)

// startLog makes the logger, which writes to stderr.
func (a *app) startLog() error {
	var level slog.Level
	name := firstOf(a.global.logLevel, a.getenv("INBOXD_LOG_LEVEL"), "info")
	switch strings.ToLower(name) {
	case "debug", "info", "warn", "error":
		_ = level.UnmarshalText([]byte(name)) // these four it knows
	default:
		return wrongUse("the log level is %q, but it must be debug, info, warn or error", name).
			withHint("it comes from --log-level or INBOXD_LOG_LEVEL")
	}
	handler, err := a.logHandler(level)
	if err != nil {
		return err
	}
	a.log = slog.New(handler)
	return nil
}

func (a *app) logHandler(level slog.Level) (slog.Handler, error) {
	name := firstOf(a.global.logFormat, a.getenv("INBOXD_LOG_FORMAT"), "auto")
	if name == "auto" {
		name = "json"
		if isTerminal(a.stderr) {
			name = "text"
		}
	}
	switch name {
	case "text":
		return tint.NewTextHandler(a.stderr, &tint.Options{
			Level: level, NoColor: !a.colourful(a.stderr), ReplaceAttr: withoutEscapes,
		}), nil
	case "json":
		return slog.NewJSONHandler(a.stderr, &slog.HandlerOptions{Level: level, ReplaceAttr: utcTime}), nil
	}
	return nil, wrongUse("the log format is %q, but it must be auto, text or json", name).
		withHint("it comes from --log-format or INBOXD_LOG_FORMAT")
}

func utcTime(groups []string, at slog.Attr) slog.Attr {
	if len(groups) == 0 && at.Key == slog.TimeKey {
		at.Value = slog.TimeValue(at.Value.Time().UTC())
	}
	return at
}

// withoutEscapes shows the character that begins a terminal's commands instead of
// sending it: tint quotes what else is not printable in a value, but takes this one
// for a colour that was meant. Ids and errors come from elsewhere.
func withoutEscapes(groups []string, at slog.Attr) slog.Attr {
	text := at.Value.String()
	switch {
	case len(groups) == 0 && at.Key == slog.MessageKey: // tint quotes nothing in it
		return slog.String(at.Key, printable(text))
	case !strings.Contains(text, "\x1b") && !strings.Contains(text, `\x1b`):
		return at
	}
	// Of its own quotes tint makes the character again, and of ones that came.
	return slog.String(at.Key, strings.NewReplacer("\x1b", "␛", `\x1b`, "␛").Replace(text))
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// colourful reports whether w is a terminal that wants colours.
func (a *app) colourful(w io.Writer) bool {
	return isTerminal(w) && a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb"
}

func firstOf(words ...string) string {
	for _, w := range words {
		if w != "" {
			return w
		}
	}
	return ""
}
