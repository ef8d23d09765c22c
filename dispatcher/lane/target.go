package lane

import (
	"fmt"
	"net/textproto"
	"net/url"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/sign"
)

// Target is the opened (decrypted and parsed) configuration of one destination, ready for attempts. The lane keeps it
// until the endpoint changes or the lane has been empty for a minute.
type Target struct {
	Rev int64 // of the endpoint
	// KeepMethod: received events are sent with the method that they came with.
	KeepMethod bool
	URL        *url.URL
	URLText    string // URL as text
	Timeout    time.Duration
	Header     []event.Field
	Secrets    []LiveSecret
}

// LiveSecret signs until a time; zero means without end.
type LiveSecret struct {
	Secret sign.Secret
	Until  time.Time
}

// openTarget parses the URL and decrypts the headers and secrets of the destination.
func openTarget(k *seal.Keyring, e *config.Endpoint, d *config.Destination) (*Target, error) {
	u, err := url.Parse(d.URL)
	if err != nil {
		return nil, fmt.Errorf("parse url of %s: %w", d.ID, err)
	}
	u.Fragment, u.User = "", nil
	target := &Target{
		Rev: e.Rev, KeepMethod: e.KeepMethod, URL: u, URLText: u.String(),
		Timeout: time.Duration(d.TimeoutSeconds) * time.Second,
	}
	for name, sealed := range d.Headers {
		value, err := k.OpenString(d.ID, seal.FieldHeader(name), sealed)
		if err != nil {
			return nil, fmt.Errorf("open header: %w", err)
		}
		target.Header = append(target.Header, event.Field{Name: textproto.CanonicalMIMEHeaderKey(name), Value: value})
	}
	for _, s := range d.Secrets {
		text, err := k.OpenString(d.ID, seal.FieldSecret, s.Secret)
		if err != nil {
			return nil, fmt.Errorf("open signing secret: %w", err)
		}
		secret, err := sign.ParseSecret(text)
		if err != nil {
			return nil, fmt.Errorf("read signing secret of %s: %w", d.ID, err)
		}
		target.Secrets = append(target.Secrets, LiveSecret{secret, s.Until})
	}
	return target, nil
}

// SigningSecrets are the secrets that are valid at now, newest first.
func (t *Target) SigningSecrets(now time.Time) []sign.Secret {
	live := make([]sign.Secret, 0, 2)
	for _, s := range t.Secrets {
		if s.Until.IsZero() || now.Before(s.Until) {
			live = append(live, s.Secret)
		}
	}
	return live
}
