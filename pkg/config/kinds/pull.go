package kinds

import "cmp"

// Pull has the settings of a destination whose events consumers fetch.
type Pull struct {
	LeaseSeconds int `json:"lease_seconds" in:"" minimum:"1" maximum:"600" label:"Lease" description:"How long a consumer has to acknowledge an event that it has pulled, in seconds. Then the attempt has failed (not_acknowledged), and the event is delivered again. Default 60." example:"60"`
}

func (p *Pull) trim()                  { p.LeaseSeconds = cmp.Or(p.LeaseSeconds, 60) }
func (p *Pull) origin() string         { return "" }
func (p *Pull) address() string        { return "pull://consumers" }
func (p *Pull) validate(Checks) *Fault { return nil }
