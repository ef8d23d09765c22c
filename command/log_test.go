package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// Every line of a log has time, level, message and node, in both formats.
func TestLogLinesNameTheNode(t *testing.T) {
	var out bytes.Buffer
	log := newLogger(&out, logJSON, slog.LevelInfo, "node-1")
	log.Debug("left out")
	log.Warn("cannot trim the log", "error", errors.New("line one\nline two"))
	var line struct{ Time, Level, Msg, Node, Error string }
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("%v in %s", err, &out)
	}
	if line.Time == "" || line.Level != "WARN" || line.Msg != "cannot trim the log" || line.Node != "node-1" ||
		line.Error != "line one\nline two" {
		t.Errorf("%s", &out)
	}
	out.Reset()
	log = newLogger(&out, logText, slog.LevelInfo, "node-1")
	log.Error("cannot trim the log")
	if !strings.Contains(out.String(), `level=ERROR msg="cannot trim the log" node=node-1`) {
		t.Errorf("%s", &out)
	}
}

// A process whose log is JSON ends with a line of JSON, not with text.
func TestFailureIsALineOfTheLog(t *testing.T) {
	var out bytes.Buffer
	env := map[string]string{
		"RELAY_LOG_FORMAT": "json", "RELAY_DATA_DIR": "/dev/null/x", "RELAY_NODE_NAME": "node-1",
	}
	code := Run(t.Context(), "test", []string{"dev"}, func(name string) string { return env[name] }, &out, &out)
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
