package endpoints

import (
	"reflect"
	"slices"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/pkg/config"
)

// alerts reads the settings in which the endpoint differs from its account; null removes all of them. It warns of
// channels that it adds and that get nothing.
func (in *endpointInput) alerts(o *frame.Object, e *config.Endpoint) {
	if o.IsNull("alerts") {
		e.Alerts = nil
	}
	o = o.Object("alerts")
	if o == nil {
		return
	}
	before := e.AlertsOrDefault()
	x := endpointAlerts(before)
	o.Decode(&x)
	for i, name := range x.Channels {
		c := in.endpoints.alertSettings().Channel(name)
		if (c == nil || !c.Enabled) && !slices.Contains(before.Channels, name) {
			in.Warn(frame.Indexed("alerts.channels", i), "gets no alert of this endpoint until "+name+
				" is set up and enabled in the account's alert settings (PATCH /v1/alerts)")
		}
	}
	o.WarnUnknown()
	e.Alerts = &config.EndpointAlerts{Enabled: x.Enabled, Channels: x.Channels, MutedUntil: time.Time(x.MutedUntil),
		ConsecutiveFailures: x.ConsecutiveFailures, FailureRatePercent: x.FailureRatePercent}
	if reflect.DeepEqual(e.Alerts, &config.EndpointAlerts{Enabled: true}) {
		e.Alerts = nil
	}
}
