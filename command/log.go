package command

import (
	"io"
	"log/slog"
)

// Values of RELAY_LOG_FORMAT.
const (
	logText = "text"
	logJSON = "json"
)

// newLogger returns the logger of a process. It writes each record as one line, as key=value pairs or as a JSON object,
// with at least time, level, msg and node.
func newLogger(out io.Writer, format string, lowest slog.Level, node string) *slog.Logger {
	options := &slog.HandlerOptions{Level: lowest}
	var handler slog.Handler = slog.NewTextHandler(out, options)
	if format == logJSON {
		handler = slog.NewJSONHandler(out, options)
	}
	return slog.New(handler).With("node", node)
}

// logFailure writes the error with which a process ends to its log, if every line of that has to be JSON.
func (s Settings) logFailure(log *slog.Logger, err error) (logged bool) {
	if err == nil || s.LogFormat != logJSON {
		return false
	}
	log.Error("the process ends with an error", "error", err)
	return true
}
