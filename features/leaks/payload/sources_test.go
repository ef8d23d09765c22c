package payload

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/features/leaks/drain"
	"github.com/eventrelay/relay/features/leaks/intake"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/limit"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/test/must"
)

// drainConfig is the configuration of drains whose token is their id.
type drainConfig struct{ *world }

func (drainConfig) DrainByToken(id, token string) (*leak.Drain, entity.Presence) {
	if id != token {
		return nil, entity.Unknown
	}
	return &leak.Drain{Meta: entity.Meta{ID: id, Account: "acc_1"}, Name: id, Platform: leak.PlatformAuto},
		entity.Present
}

func (drainConfig) DrainSecrets(*leak.Drain) (s leak.DrainSecrets, err error) { return s, nil }

// The same key in the lines of two platforms and in a stored event is one finding with three senders.
func TestOneKeyIsOneFinding(t *testing.T) {
	w := newWorld(t)
	limiter := must.Get(limit.New(limit.DefaultConfig(), limit.Deps{Log: slog.New(slog.DiscardHandler), Now: time.Now}))(t)
	scanner := must.Get(secrets.New(secrets.ForLeaks))(t)
	drains := drain.New(drain.Deps{
		Deps: intake.Deps{
			Node: "node-1", Partitions: 4, Metrics: prometheus.NewRegistry(), Producer: w,
			Findings: limiter.NewDistinct("drain-findings", intake.NewFindingsSpan), Now: time.Now, Front: &web.Front{},
		},
		Config: drainConfig{w}, Scanner: scanner, Tokens: limiter,
		Records: limiter.NewWindow("drain-records", time.Minute),
	})
	message := "<40>1 2026-03-04T05:05:00+00:00 host app web.1 - key " + leakedKey(1) + "\n"
	for _, x := range []struct{ id, header, value, body string }{
		{"drn_heroku", "Logplex-Frame-Id", "1", fmt.Sprintf("%d %s", len(message), message)},
		{"drn_vercel", "X-Vercel-Signature", "0", `[{"projectName":"shop","message":"\u001b[31mkey\u001b[0m ` + leakedKey(1) +
			`"}]`},
	} {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/drain/"+x.id+"/"+x.id, bytes.NewBufferString(x.body))
		r.Header.Set(x.header, x.value)
		answer := httptest.NewRecorder()
		if drains.Handler().ServeHTTP(answer, r); answer.Code != 200 {
			t.Fatalf("%d %s", answer.Code, answer.Body)
		}
	}
	w.scan(received(`{"meta":{"note":"` + leakedKey(1) + `"}}`))
	all := w.Hits()
	senders, locations := map[string]finding.Source{}, map[[16]byte]bool{}
	for _, h := range all {
		senders[h.Sender] = h.Source
		locations[h.LocationHash] = true
		if h.Finding != all[0].Finding || h.Masked != all[0].Masked {
			t.Errorf("%s is the finding %s of %s", h.Sender, h.Finding, h.Masked)
		}
	}
	if len(all) != 3 || len(senders) != 3 || len(locations) != 3 || senders[endpointID] != finding.Event {
		t.Errorf("%d hits of %v in %d locations", len(all), senders, len(locations))
	}
}
