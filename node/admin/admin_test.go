package admin

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// serve returns a handler; some sets dependencies, and the others do nothing.
func serve(t *testing.T, some func(*Deps)) http.Handler {
	t.Helper()
	none := &config.Control{}
	d := Deps{
		Log: slog.New(slog.DiscardHandler), Keys: none, Uses: struct{ Uses }{}, Config: none,
		Producer: &letters{},
		BaseURL:  "http://localhost:8080", Now: time.Now,
		CheckURL: func(string) error { return nil },
		Dead:     func() (DeadLetters, error) { return nil, nil },
		Answers:  map[string]func(*http.Request) (any, error){},
		Steps:    map[string]func(*http.Request, func(any)) error{},
	}
	some(&d)
	h := must.Get(New(d))(t)
	return h
}

func request(h http.Handler, method, path, body string) (status int, answer string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w.Code, w.Body.String()
}

// letters is a topic dead with two records that cannot be retried, and records what is produced.
type letters struct {
	DeadLetters
	produced []string
}

func (l *letters) EachDeadLetter(_ context.Context, _ string, do func(stream.DeadLetter) error) error {
	return errors.Join(
		do(stream.DeadLetter{Source: stream.Partition{Topic: "control"}, Record: &stream.Record{}}),
		do(stream.DeadLetter{Source: stream.Partition{Topic: stream.Outcomes}, Record: &stream.Record{Value: []byte("?")}}))
}

func (l *letters) Close() {}

func (l *letters) ProduceInOwnBatch(_ context.Context, topic string, _ int32, _ *stream.Record) error {
	l.produced = append(l.produced, topic)
	return nil
}

func (l *letters) ProduceSync(_ context.Context, topic string, _ int32, _ *stream.Record) error {
	l.produced = append(l.produced, topic)
	return nil
}

// A dead letter that still cannot be decoded is refused and stays a dead letter.
func TestDeadLettersAreRefused(t *testing.T) {
	l := &letters{}
	h := serve(t, func(d *Deps) {
		d.Producer, d.Dead = l, func() (DeadLetters, error) { return l, nil }
	})
	_, answer := request(h, "POST", "/dead/retry", `{"all":true}`)
	if len(l.produced) != 0 || strings.Count(answer, `"refused"`) != 2 ||
		!strings.Contains(answer, "0 put back, 2 refused") {
		t.Errorf("produced %v: %s", l.produced, answer)
	}
	if status, answer := request(h, "POST", "/dead/retry", `{"id":"x"}`); status < 400 ||
		!strings.Contains(answer, "partition:offset") {
		t.Errorf("%d %s", status, answer)
	}
}

// New names every missing dependency: it shows when the process starts, not at the first command.
func TestMissingDependenciesAreNamed(t *testing.T) {
	_, err := New(Deps{})
	for f := range reflect.TypeFor[Deps]().Fields() {
		is.Failed(t, err, "admin dependency "+f.Name+" is missing", "nothing says that %s is missing", f.Name)
	}
}
