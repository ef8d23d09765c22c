package dispatcher

import (
	"context"
	"slices"
	"sync"

	"github.com/eventrelay/relay/pkg/control"
)

// view is a configuration in memory.
type view struct {
	mu        sync.Mutex
	endpoints map[string]*control.Endpoint
	jobs      map[string]*control.Recovery
	deleted   map[string]bool
	onSync    func() error
	syncs     int
	onUpdate  func() error
	updates   int
}

func newView(eps ...*control.Endpoint) *view {
	v := &view{endpoints: map[string]*control.Endpoint{}, deleted: map[string]bool{}, jobs: map[string]*control.Recovery{}}
	for _, ep := range eps {
		v.put(ep)
	}
	return v
}

func (v *view) put(ep *control.Endpoint) {
	v.mu.Lock()
	defer v.mu.Unlock()
	ep.Rev++
	v.endpoints[ep.ID] = ep
}

// change replaces the endpoint by a changed copy, as the real view does.
func (v *view) change(id string, f func(*control.Endpoint)) {
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

func (v *view) Endpoint(id string) (*control.Endpoint, control.Presence) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.endpoints[id] != nil:
		return v.endpoints[id], control.Present
	case v.deleted[id]:
		return nil, control.Deleted
	}
	return nil, control.Unknown
}

func (v *view) Recovery(id string) (*control.Recovery, control.Presence) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if job := v.jobs[id]; job != nil {
		return job, control.Present
	}
	return nil, control.Unknown
}

// job replaces a recovery job.
func (v *view) job(job control.Recovery) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.jobs[job.ID] = &job
}

// during sets what happens while an update is on its way.
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

// UpdateEndpoint is a write on the way of which something may happen.
func (v *view) UpdateEndpoint(_ context.Context, id string, change func(*control.Endpoint) error) (*control.Endpoint, error) {
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
		return nil, control.ErrNotFound
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
