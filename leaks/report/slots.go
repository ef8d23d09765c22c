package report

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/web"
)

// Requests whose bodies are read at the same time, each of maxServerBody bytes, twice with gzip. Whoever sends slowly
// leaves room for other DSNs, and for other clients of the same DSN.
const (
	maxRunning         = 512 // of this node
	maxRunningOfDSN    = 128
	maxRunningOfClient = 64 // of one address, or /64 of IPv6
)

// slots counts the requests whose bodies are being read.
type slots struct {
	most, mostOfDSN, mostOfClient int

	mu      sync.Mutex // guards what follows
	all     int
	dsns    map[string]int
	clients map[netip.Addr]int
}

func newSlots() slots {
	return slots{most: maxRunning, mostOfDSN: maxRunningOfDSN, mostOfClient: maxRunningOfClient,
		dsns: map[string]int{}, clients: map[netip.Addr]int{}}
}

// enter takes a slot, or returns the 429 of the DSN or the client, or the 503 of the node. Call leave once. client is
// invalid for a connection without addresses, which has no bound of its own.
func (s *slots) enter(dsn string, client netip.Addr) (leave func(), err error) {
	client = web.NetworkOf(client)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.all >= s.most:
		return nil, web.ServiceUnavailable(nil, "this node reads as many reports as it can; send the batch again")
	case s.dsns[dsn] >= s.mostOfDSN || client.IsValid() && s.clients[client] >= s.mostOfClient:
		return nil, &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: time.Second,
			Message: "too many batches of this DSN or from this address are arriving; send the batch again"}
	}
	s.all++
	s.dsns[dsn]++
	s.clients[client]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all--
		if s.dsns[dsn]--; s.dsns[dsn] == 0 {
			delete(s.dsns, dsn)
		}
		if s.clients[client]--; s.clients[client] == 0 {
			delete(s.clients, client)
		}
	}, nil
}
