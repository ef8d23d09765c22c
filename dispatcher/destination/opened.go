package destination

import (
	"fmt"
	"net/textproto"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/sign"
)

// Opened has the opened (decrypted) settings that destinations of every kind have.
type Opened struct {
	// KeepMethod: received events are sent with the method that they came with.
	KeepMethod bool
	Timeout    time.Duration
	Header     []event.Field
	Secrets    []LiveSecret
}

// LiveSecret signs until a time; zero means without end.
type LiveSecret struct {
	Secret sign.Secret
	Until  time.Time
}

// Open decrypts the headers and signing secrets of the destination.
func Open(k *seal.Keyring, e *config.Endpoint, d *config.Destination) (Opened, error) {
	opened := Opened{KeepMethod: e.KeepMethod, Timeout: time.Duration(d.TimeoutSeconds) * time.Second}
	for name, sealed := range d.Headers {
		value, err := k.OpenString(d.ID, seal.FieldHeader(name), sealed)
		if err != nil {
			return Opened{}, fmt.Errorf("open header: %w", err)
		}
		opened.Header = append(opened.Header, event.Field{Name: textproto.CanonicalMIMEHeaderKey(name), Value: value})
	}
	for _, s := range d.Secrets {
		text, err := k.OpenString(d.ID, seal.FieldSecret, s.Secret)
		if err != nil {
			return Opened{}, fmt.Errorf("open signing secret: %w", err)
		}
		secret, err := sign.ParseSecret(text)
		if err != nil {
			return Opened{}, fmt.Errorf("read signing secret of %s: %w", d.ID, err)
		}
		opened.Secrets = append(opened.Secrets, LiveSecret{secret, s.Until})
	}
	return opened, nil
}

// SigningSecrets are the secrets that are valid at now, newest first.
func (o *Opened) SigningSecrets(now time.Time) []sign.Secret {
	live := make([]sign.Secret, 0, 2)
	for _, s := range o.Secrets {
		if s.Until.IsZero() || now.Before(s.Until) {
			live = append(live, s.Secret)
		}
	}
	return live
}
