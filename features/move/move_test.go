package move

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/dispatcher"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
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

func (m *moving) Refresh(context.Context) (dispatcher.OpenRecords, error) {
	if len(m.open) == 0 {
		return dispatcher.OpenRecords{}, errors.New("the log is unavailable")
	}
	n := m.open[0]
	m.open = m.open[1:]
	return dispatcher.OpenRecords{Immediate: n}, nil
}

// A move ends when no record is open. It goes back if open records can no longer be counted. A dry run changes nothing.
func TestMoveSteps(t *testing.T) {
	f := func(open []int, ask Move, steps, said string) {
		t.Helper()
		m := &moving{open: open}
		body := must.Get(json.Marshal(ask))(t)
		x := &moves{log: slog.New(slog.DiscardHandler), endpoints: m, now: time.Now,
			named: func() []cli.Named { return []cli.Named{{ID: "ep_1", Name: "shop"}} },
			open:  func() (Partitions, error) { return m, nil }}
		var answer strings.Builder
		err := x.move(httptest.NewRequest("POST", "/move", bytes.NewReader(body)), func(step any) {
			must.Do(t, json.NewEncoder(&answer).Encode(step))
		})
		fmt.Fprint(&answer, err)
		if got := strings.Join(m.steps, ", "); got != steps || !strings.Contains(answer.String(), said) {
			t.Errorf("%+v: %q, want %q\n%s", ask, got, steps, &answer)
		}
	}
	ask := Move{Endpoint: "ep_1", Partition: 1, WaitSeconds: 60}
	f([]int{1, 0}, ask, "move, end back=false", "<nil>")
	f([]int{1}, ask, "move, end back=true", "the log is unavailable")
	f([]int{1}, Move{Endpoint: "ep_1", Partition: 1, WaitSeconds: 60, DryRun: true}, "", `"state":"open"`)
	f(nil, Move{Endpoint: "ep_1", Partition: 2, WaitSeconds: 60}, "", "from 0 to 1")
	f(nil, Move{Endpoint: "ep_2", Partition: 1, WaitSeconds: 60}, "", `no endpoint has the id or the name "ep_2"`)
	f([]int{1, 0}, Move{Endpoint: "shop", Partition: 1, WaitSeconds: 60}, "move, end back=false", "<nil>")
}
