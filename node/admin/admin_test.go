package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/dispatcher"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// moving is a configuration with one endpoint in partition 0 of two, and a log in which some of it is open.
type moving struct {
	open  []int // open records, one number for each Refresh; after that Refresh fails
	steps []string
}

func (m *moving) Endpoint(id string) (*config.Endpoint, entity.Presence) {
	if id != "ep_1" {
		return nil, entity.Unknown
	}
	return &config.Endpoint{ID: id}, entity.Present
}

func (m *moving) step(name string, partition int32) (*config.Endpoint, error) {
	m.steps = append(m.steps, name)
	return &config.Endpoint{ID: "ep_1", Partition: partition,
			Move: &config.PartitionMove{Until: time.Now().Add(moveLease)}},
		nil
}

func (m *moving) MoveEndpoint(_ context.Context, _ string, to int32, _ time.Time) (*config.Endpoint, error) {
	return m.step("move", to)
}

func (m *moving) ExtendMove(context.Context, *config.Endpoint, time.Time) (*config.Endpoint, error) {
	return m.step("extend", 1)
}

func (m *moving) EndMove(_ context.Context, _ *config.Endpoint, back bool) (*config.Endpoint, error) {
	return m.step(fmt.Sprintf("end back=%t", back), 1)
}

func (m *moving) Count(context.Context) (int, error) { return 2, nil }
func (m *moving) Survey(string, []int32) Survey      { return m }
func (m *moving) Close()                             {}

// serve returns a handler; some sets dependencies, and the others do nothing.
func serve(t *testing.T, some func(*Deps)) http.Handler {
	t.Helper()
	var none *config.Control
	d := Deps{
		Log: slog.New(slog.DiscardHandler), Keys: none, Uses: struct{ Uses }{}, Users: noUsers{}, Config: none,
		Producer:  &letters{},
		Endpoints: none, BaseURL: "http://localhost:8080", Now: time.Now,
		CheckURL:   func(string) error { return nil },
		Dead:       func() (DeadLetters, error) { return nil, nil },
		Partitions: func() (Partitions, error) { return nil, nil },
		Answers:    map[string]func(*http.Request) (any, error){},
		Steps:      map[string]func(*http.Request, func(any)) error{},
	}
	some(&d)
	h := must.Get(New(d))(t)
	return h
}

func (m *moving) handler(t *testing.T) http.Handler {
	t.Helper()
	return serve(t, func(d *Deps) {
		d.Endpoints, d.Partitions = m, func() (Partitions, error) { return m, nil }
	})
}

func (m *moving) Refresh(context.Context) (dispatcher.OpenRecords, error) {
	if len(m.open) == 0 {
		return dispatcher.OpenRecords{}, errors.New("the log is unavailable")
	}
	n := m.open[0]
	m.open = m.open[1:]
	return dispatcher.OpenRecords{Immediate: n}, nil
}

// noUsers has no users.
type noUsers struct{}

func (noUsers) Users() []*config.User { return nil }
func (noUsers) AddUser(context.Context, string, config.Scope) (string, *config.User, error) {
	return "", nil, nil
}
func (noUsers) ResetUser(context.Context, string, int64) (string, *config.User, error) {
	return "", nil, nil
}
func (noUsers) SetUserScope(context.Context, string, config.Scope, int64) (*config.User, error) {
	return nil, nil
}
func (noUsers) RemoveUser(context.Context, string) error { return nil }

func request(h http.Handler, method, path, body string) (status int, answer string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w.Code, w.Body.String()
}

// A move ends when no record is open. It goes back if open records can no longer be counted. A dry run changes nothing.
func TestMoveSteps(t *testing.T) {
	f := func(open []int, ask Move, steps, said string) {
		t.Helper()
		m := &moving{open: open}
		body, _ := json.Marshal(ask)
		_, answer := request(m.handler(t), "POST", "/move", string(body))
		if got := strings.Join(m.steps, ", "); got != steps || !strings.Contains(answer, said) {
			t.Errorf("%+v: %q, want %q\n%s", ask, got, steps, answer)
		}
	}
	ask := Move{Endpoint: "ep_1", Partition: 1, WaitSeconds: 60}
	f([]int{1, 0}, ask, "move, end back=false", `"finished":true`)
	f([]int{1}, ask, "move, end back=true", `"error"`)
	f([]int{1}, Move{Endpoint: "ep_1", Partition: 1, WaitSeconds: 60, DryRun: true}, "", `"state":"open"`)
	f(nil, Move{Endpoint: "ep_1", Partition: 2, WaitSeconds: 60}, "", "from 0 to 1")
	f(nil, Move{Endpoint: "ep_2", Partition: 1, WaitSeconds: 60}, "", "no endpoint has this id")
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
