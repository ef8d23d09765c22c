package dispatcher

import (
	"fmt"
	"net/url"
	"time"

	"github.com/eventrelay/relay/pkg/control"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/sign"
)

// target is the opened configuration of one destination: what an attempt needs, ready to use. It
// lives in the lane and is made anew when the endpoint changes.
type target struct {
	rev     int64 // of the endpoint
	url     *url.URL
	text    string // of url
	timeout time.Duration
	header  []event.Field
	secrets []liveSecret
}

// liveSecret signs until a time; zero means for ever.
type liveSecret struct {
	secret sign.Secret
	until  time.Time
}

func openTarget(k *control.Keyring, rev int64, d *control.Destination) (*target, error) {
	u, err := url.Parse(d.URL)
	if err != nil {
		return nil, fmt.Errorf("parse url of %s: %w", d.ID, err)
	}
	u.Fragment, u.User = "", nil
	t := &target{rev: rev, url: u, text: u.String(), timeout: time.Duration(d.TimeoutSeconds) * time.Second}
	for name, sealed := range d.Headers {
		value, err := k.OpenString(d.ID, control.FieldHeader(name), sealed)
		if err != nil {
			return nil, fmt.Errorf("open header: %w", err)
		}
		t.header = append(t.header, event.Field{Name: canonical(name), Value: value})
	}
	for _, s := range d.Secrets {
		text, err := k.OpenString(d.ID, control.FieldSecret, s.Secret)
		if err != nil {
			return nil, fmt.Errorf("open signing secret: %w", err)
		}
		secret, err := sign.ParseSecret(text)
		if err != nil {
			return nil, fmt.Errorf("read signing secret of %s: %w", d.ID, err)
		}
		t.secrets = append(t.secrets, liveSecret{secret, s.Until})
	}
	return t, nil
}

// signing are the secrets that live at now, newest first.
func (t *target) signing(now time.Time) []sign.Secret {
	live := make([]sign.Secret, 0, 2)
	for _, s := range t.secrets {
		if s.until.IsZero() || now.Before(s.until) {
			live = append(live, s.secret)
		}
	}
	return live
}
