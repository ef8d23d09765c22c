package kinds

import "cmp"

// HTTPBatch has the settings of a webhook that gets several events in a request.
type HTTPBatch struct {
	Events  int `json:"max_events" in:"" minimum:"1" maximum:"1000" label:"Events of a batch" description:"A batch leaves when it has so many events. Default 100."`
	Seconds int `json:"flush_seconds" in:"" minimum:"1" maximum:"30" label:"Time of a batch" description:"How long events gather in a batch, in seconds. Default 2."`
	Bytes   int `json:"max_bytes" in:"" minimum:"1024" maximum:"16777216" label:"Size of a batch, in bytes" description:"Largest body of a request. A larger event fails as too_large. Default 1048576."`
}

func (h *HTTPBatch) trim() {
	h.Events, h.Seconds, h.Bytes = cmp.Or(h.Events, 100), cmp.Or(h.Seconds, 2), cmp.Or(h.Bytes, 1<<20)
}

func (h *HTTPBatch) origin() string { return "" }

func (h *HTTPBatch) validate(Checks) *Fault { return nil }
