package command

import (
	"context"
	"io"
	"log"
	"log/slog"
	"strings"

	"github.com/eventrelay/relay/pkg/web"
)

// Values of RELAY_LOG_FORMAT.
const (
	logText = "text"
	logJSON = "json"
)

// logHandler writes each record as one line, as key=value pairs or as a JSON object. Times are in UTC, as in the API
// and in the lines of engines.
func logHandler(out io.Writer, format string, lowest slog.Level) slog.Handler {
	options := &slog.HandlerOptions{Level: lowest, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindTime {
			a.Value = slog.TimeValue(a.Value.Time().UTC())
		}
		return a
	}}
	if format == logJSON {
		return slog.NewJSONHandler(out, options)
	}
	return slog.NewTextHandler(out, options)
}

// newLogger returns the logger of a process. Its records have at least time, level, msg and node. Lines of the standard
// logger, which libraries use, go there too.
func newLogger(handler slog.Handler, node string) *slog.Logger {
	logger := slog.New(handler).With("node", node)
	log.SetFlags(0) // the handler adds the time
	log.SetOutput(libraryLog{logger})
	return logger
}

// maxLibraryLine bounds what is logged of a line of the standard logger, in bytes.
const maxLibraryLine = 200

// libraryLog is the output of the standard logger, at level debug. net/http writes there what a destination sends
// without being asked, quoted: up to 4 KB, which may repeat the Authorization header of the request before. So a line
// ends at its first quotation mark.
type libraryLog struct{ log *slog.Logger }

func (l libraryLog) Write(line []byte) (int, error) {
	text := string(line)
	if i := strings.IndexAny(text, "\"`"); i >= 0 {
		text = text[:i]
	}
	text = strings.ToValidUTF8(text[:min(len(text), maxLibraryLine)], "")
	l.log.LogAttrs(context.Background(), slog.LevelDebug, "a library logged a line",
		slog.String("line", strings.TrimSpace(web.SanitizeLine(text))))
	return len(line), nil
}

// logFailure writes the error with which a process ends to its log, if every line of that has to be JSON.
func logFailure(log *slog.Logger, format string, err error) (logged bool) {
	if err == nil || format != logJSON {
		return false
	}
	log.Error("the process ends with an error", "error", err)
	return true
}
