package demo

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/eventrelay/relay/features"
	"github.com/eventrelay/relay/features/demo/shop"
	"github.com/eventrelay/relay/ingest"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/id"
)

const (
	// pause is between two orders of a sample.
	pause = 500 * time.Millisecond
	// newest is how many endpoints are looked at: the sample is one of the last that were created while its events come.
	newest = 20
)

// types are those of a sample's events, in turns.
var types = []string{"orders/create", "orders/paid", "orders/fulfilled", "refunds/create"}

// sample makes the events of sample shops on one node.
type sample struct {
	*features.Host
	next int // the type of the next event
}

// newParts returns what a node needs for a sample.
func newParts(h *features.Host) features.Parts {
	h.Inside, h.TryURL = map[string]http.RoundTripper{shop.Host: shop.Receiver{Now: h.Now}}, "https://"+shop.Host+"/first"
	s := &sample{Host: h}
	return features.Parts{Stages: []features.Start{{Name: "sample shop", New: func() (func(context.Context) error, error) {
		return s.run, nil
	}}}}
}

// run makes the events of samples until ctx ends. One node does.
func (s *sample) run(ctx context.Context) error {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if !s.OwnsFirstPartition.Load() {
			continue
		}
		account := s.Control.Account()
		if account == nil {
			continue
		}
		endpoints, _ := s.Control.Endpoints(account.ID, 0, newest)
		for _, ep := range endpoints {
			began, ok := shop.BeganAt(ep)
			if age := s.Now().Sub(began); ok && ep.Enabled && age >= 0 && age < shop.Lasts {
				if err := s.post(ctx, ep); err != nil {
					s.Log.LogAttrs(ctx, slog.LevelWarn, "cannot make an event of the sample shop", slog.Any("error", err))
				}
			}
		}
	}
}

// post posts the next event to the ingest URL of a sample, as the provider does.
func (s *sample) post(ctx context.Context, ep *config.Endpoint) error {
	at, err := id.NewGenerator(s.Now).New(0)
	if err != nil {
		return err
	}
	e, err := s.Ingest.Sample(ep, ep.Provider, types[s.next%len(types)], at)
	if err != nil {
		return err
	}
	s.next++
	token, err := s.Keyring.OpenString(ep.ID, seal.FieldToken, ep.Token)
	if err != nil {
		return err
	}
	path := ingest.PathPrefix + token
	r, err := http.NewRequestWithContext(ctx, e.Method, s.PublicURL+path, bytes.NewReader(e.Body))
	if err != nil {
		return err
	}
	r.RequestURI, r.RemoteAddr = path, "127.0.0.1:0"
	for _, f := range e.Header {
		r.Header.Add(f.Name, f.Value)
	}
	answer := answer{header: http.Header{}}
	s.Ingest.Handler().ServeHTTP(&answer, r)
	if answer.status >= http.StatusMultipleChoices {
		return fmt.Errorf("it was answered %d", answer.status)
	}
	return nil
}

// answer keeps the status of a response.
type answer struct {
	header http.Header
	status int
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) Write(b []byte) (int, error) { return len(b), nil }
func (a *answer) WriteHeader(status int)      { a.status = status }
