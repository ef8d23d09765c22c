package dispatcher

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/jobs"
)

// view is a configuration in memory.
type view struct {
	mu        sync.Mutex
	endpoints map[string]*config.Endpoint
	jobs      map[string]*jobs.Recovery
	runs      map[string]*jobs.Run
	deleted   map[string]bool
	onSync    func() error
	syncs     int
	onUpdate  func() error
	updates   int
}

func newView(eps ...*config.Endpoint) *view {
	v := &view{endpoints: map[string]*config.Endpoint{}, deleted: map[string]bool{},
		jobs: map[string]*jobs.Recovery{}, runs: map[string]*jobs.Run{}}
	for _, endpoint := range eps {
		v.put(endpoint)
	}
	return v
}

func (v *view) put(endpoint *config.Endpoint) {
	v.mu.Lock()
	defer v.mu.Unlock()
	endpoint.Rev++
	v.endpoints[endpoint.ID] = endpoint
}

// change replaces the endpoint by a changed copy, as the real configuration does.
func (v *view) change(id string, f func(*config.Endpoint)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	ep := *v.endpoints[id]
	ep.Destinations = slices.Clone(ep.Destinations)
	f(&ep)
	ep.Rev++
	v.endpoints[id] = &ep
}

func (v *view) remove(id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.endpoints, id)
	v.deleted[id] = true
}

func (v *view) Endpoint(id string) (*config.Endpoint, entity.Presence) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.endpoints[id] != nil:
		return v.endpoints[id], entity.Present
	case v.deleted[id]:
		return nil, entity.Deleted
	}
	return nil, entity.Unknown
}

func (v *view) Recovery(id string) (*jobs.Recovery, entity.Presence) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if job := v.jobs[id]; job != nil {
		return job, entity.Present
	}
	return nil, entity.Unknown
}

func (v *view) ReplayRun(id string) (*jobs.Run, entity.Presence) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if run := v.runs[id]; run != nil {
		return run, entity.Present
	}
	return nil, entity.Unknown
}

// cancelRun adds a replay run that was cancelled.
func (v *view) cancelRun(id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.runs[id] = &jobs.Run{Meta: entity.Meta{ID: id}, CancelledAt: time.Now()}
}

// job adds or replaces a recovery job.
func (v *view) job(job jobs.Recovery) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.jobs[job.ID] = &job
}

// during sets a function that runs while an update is being written.
func (v *view) during(f func() error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.onUpdate = f
}

func (v *view) written() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.updates
}

// UpdateEndpoint is a write during which the function of during runs.
func (v *view) UpdateEndpoint(_ context.Context, id string, change func(*config.Endpoint) error) (*config.Endpoint,
	error) {
	v.mu.Lock()
	v.updates++
	onUpdate := v.onUpdate
	v.mu.Unlock()
	if onUpdate != nil {
		if err := onUpdate(); err != nil {
			return nil, err
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.endpoints[id] == nil {
		return nil, config.ErrNotFound
	}
	ep := *v.endpoints[id]
	ep.Destinations = slices.Clone(ep.Destinations)
	if err := change(&ep); err != nil {
		return nil, err
	}
	ep.Rev++
	v.endpoints[id] = &ep
	return &ep, nil
}

func (v *view) Sync(context.Context) error {
	v.mu.Lock()
	v.syncs++
	f := v.onSync
	v.mu.Unlock()
	if f != nil {
		return f()
	}
	return nil
}
