package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
	"log"
	"log/slog"
	"strings"
	"testing"
)

// Every line of a log has time, level, message and node, in both formats.
func TestLogLinesNameTheNode(t *testing.T) {
	var out bytes.Buffer
	logger := newLogger(logHandler(&out, logJSON, slog.LevelInfo), "node-1")
	logger.Debug("left out")
	logger.Warn("cannot trim the log", "error", errors.New("line one\nline two"))
	var line struct{ Time, Level, Msg, Node, Error string }
	must.Do(t, json.Unmarshal(out.Bytes(), &line), "in %s", &out)
	if line.Time == "" || line.Level != "WARN" || line.Msg != "cannot trim the log" || line.Node != "node-1" ||
		line.Error != "line one\nline two" {
		t.Errorf("%s", &out)
	}
	out.Reset()
	logger = newLogger(logHandler(&out, logText, slog.LevelInfo), "node-1")
	logger.Error("cannot trim the log")
	is.Has(t, out.String(), `level=ERROR msg="cannot trim the log" node=node-1`, &out)
}

// What libraries write to the standard logger is a debug line of the node's log, without what a destination sent.
func TestStandardLoggerWritesNoReceivedBytes(t *testing.T) {
	before, flags := log.Writer(), log.Flags()
	defer func() {
		log.SetOutput(before)
		log.SetFlags(flags)
	}()
	write := func(lowest slog.Level) string {
		var out bytes.Buffer
		newLogger(logHandler(&out, logJSON, lowest), "node-1")
		// The line of net/http, and a long one.
		log.Printf("Unsolicited response received on idle HTTP channel starting with %q; err=%v",
			"HTTP/1.1 400 Bad\r\nX-Echo: Bearer hush\r\n", errors.New("hush"))
		log.Print(strings.Repeat("é", 200) + "hush")
		return out.String()
	}
	is.Equal(t, write(slog.LevelInfo), "", "at level info")
	out := write(slog.LevelDebug)
	var lines []string
	for text := range strings.Lines(out) {
		var record struct{ Level, Node, Line string }
		if err := json.Unmarshal([]byte(text), &record); err != nil || record.Level != "DEBUG" || record.Node != "node-1" {
			t.Errorf("%v: %s", err, text)
		}
		lines = append(lines, record.Line)
	}
	if len(lines) != 2 || lines[0] != "Unsolicited response received on idle HTTP channel starting with" ||
		lines[1] != strings.Repeat("é", maxLibraryLine/2) || strings.Contains(out, "hush") {
		t.Errorf("%s", out)
	}
}

// A process whose log is JSON ends with a line of JSON, not with text.
func TestFailureIsALineOfTheLog(t *testing.T) {
	var out bytes.Buffer
	env := map[string]string{
		"RELAY_LOG_FORMAT": "json", "RELAY_DATA_DIR": "/dev/null/x", "RELAY_NODE_NAME": "node-1",
	}
	code := Program{Version: "test"}.Run(t.Context(), []string{"dev"},
		func(name string) string { return env[name] }, &out, &out)
	if code != ExitRefused || !strings.Contains(out.String(), "data directory") {
		t.Fatalf("%d %s", code, &out)
	}
	for line := range strings.Lines(out.String()) {
		var record struct{ Level, Msg, Node string }
		if err := json.Unmarshal([]byte(line), &record); err != nil || record.Msg == "" || record.Node != "node-1" {
			t.Errorf("%v: %s", err, line)
		}
	}
}
