package endpoints

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/pkg/web"
)

// destinations serves the destinations of endpoints. A change of a destination is a change of its endpoint.
type destinations struct{ *endpoints }

// changeDestination applies the body of a request to the destination in its path.
func (a *destinations) changeDestination(r *http.Request, key *config.Key,
	merge func(in *endpointInput, o *frame.Object, d *config.Destination),
) (after *config.Endpoint, name string, in *endpointInput, err error) {
	if _, name, err = a.DestinationInPath(r, key); err != nil {
		return nil, name, nil, err
	}
	after, in, err = a.changeEndpoint(r, key, a.saved(r),
		func(in *endpointInput, o *frame.Object, e *config.Endpoint) {
			e.Destinations = slices.Clone(e.Destinations)
			if d := e.Destination(name); d != nil {
				merge(in, o, d)
			} else { // deleted since the path was read
				in.Err = frame.ErrNoDestination()
			}
		})
	return after, name, in, err
}

func (a *destinations) answerDestination(w http.ResponseWriter, r *http.Request, key *config.Key, status int,
	e *config.Endpoint, name string, in *endpointInput,
) error {
	held := a.openBreakers(r.Context(), e)
	view, err := a.destinationView(frame.ViewerOf(key), e, e.Destination(name), in.revealed, held)
	if err != nil {
		return err
	}
	view.Warnings = in.Warnings
	for i := range view.Warnings { // parameters are relative to the one destination in the request
		_, member, inside := strings.Cut(view.Warnings[i].Param, "].")
		if inside && strings.HasPrefix(view.Warnings[i].Param, "destinations[") {
			view.Warnings[i].Param = member
		}
	}
	return web.Answer(w, status, view)
}

func (a *destinations) createDestination(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	created := frame.NewID(r, id.Destination)
	merge := func(in *endpointInput, o *frame.Object, e *config.Endpoint) {
		d := in.mergeDestination(o, in.newDestination(created))
		switch {
		case in.Err != nil:
		case e.Destination(created) != nil: // by the first call with the Idempotency-Key
			in.Err = a.revealSecrets(in, e)
		case d.URL == "":
			in.Fail("url", "is required")
		case len(e.Destinations) >= maxDestinations:
			in.Fail("destinations", "an endpoint may have at most %d destinations; delete one first", maxDestinations)
		default:
			e.Destinations = append(slices.Clone(e.Destinations), d)
		}
	}
	after, in, err := a.changeEndpoint(r, key, a.saved(r), merge)
	if err != nil {
		return err
	}
	return a.answerDestination(w, r, key, http.StatusCreated, after, created, in)
}

func (a *destinations) updateDestination(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	after, name, in, err := a.changeDestination(r, key, func(in *endpointInput, o *frame.Object, d *config.Destination) {
		*d = in.mergeCurrent(o, *d)
	})
	if err != nil {
		return err
	}
	return a.answerDestination(w, r, key, http.StatusOK, after, name, in)
}

func (a *destinations) deleteDestination(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	_, name, err := a.DestinationInPath(r, key)
	if err != nil {
		return err
	}
	merge := func(in *endpointInput, _ *frame.Object, e *config.Endpoint) {
		rest := slices.DeleteFunc(slices.Clone(e.Destinations), func(d config.Destination) bool { return d.ID == name })
		switch {
		case len(rest) == len(e.Destinations):
			in.Err = frame.ErrNoDestination()
		case len(rest) < e.FewestDestinations():
			in.Fail("destinations", "must keep at least one destination; delete the endpoint, or disable the destination "+
				"instead")
		default:
			e.Destinations = rest
		}
	}
	if _, _, err := a.changeEndpoint(r, key, a.saved(r), merge); err != nil {
		return err
	}
	return frame.WriteDeleted(w, name, "destination")
}

// maxOverlap is more than a receiver needs to install a new secret, in seconds.
const maxOverlap = 604800

// rotateSecret creates a new signing secret. Deliveries carry the signatures of both secrets until the overlap ends.
func (a *destinations) rotateSecret(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	after, name, in, err := a.changeDestination(r, key, func(in *endpointInput, o *frame.Object, d *config.Destination) {
		current, err := a.signingSecret(d, 0)
		if err != nil {
			in.Err = err
			return
		}
		algorithm := string(current.Algorithm())
		o.Enum("algorithm", &algorithm, sign.Algorithms()...)
		until := a.overlapEnd(o, maxOverlap)
		if a.rotatedBefore(r, in, d) {
			return
		}
		before := d.Secrets[0]
		for _, older := range d.Secrets[1:] {
			if older.Until.After(a.Now()) {
				in.Warn("overlap_seconds", fmt.Sprintf("the overlap of the secret that ends with %s, until %s, ends now: only the "+
					"newest two secrets sign", older.Last4, older.Until.UTC().Format(web.TimeFormat)))
			}
		}
		next := sign.New(sign.Algorithm(algorithm))
		checkKey(o, d, next)
		in.setSecret(d, next)
		d.Secrets[0].RotatedBy = frame.RotatedBy(r)
		if before.Until = until; !until.IsZero() {
			d.Secrets = append(d.Secrets, before)
		}
	})
	if err != nil {
		return err
	}
	return a.answerDestination(w, r, key, http.StatusOK, after, name, in)
}

// rotatedBefore reports whether an earlier call with the request's Idempotency-Key has already rotated the secret.
// The answer then shows that secret: a second rotation would end the one that receivers still use.
func (a *destinations) rotatedBefore(r *http.Request, in *endpointInput, d *config.Destination) bool {
	by := frame.RotatedBy(r)
	if by == "" {
		return false
	}
	i := slices.IndexFunc(d.Secrets, func(s config.SigningSecret) bool { return s.RotatedBy == by })
	if i < 0 {
		return false
	}
	secret, err := a.signingSecret(d, i)
	if in.Err == nil {
		in.Err = err
	}
	in.reveal(d, secret)
	return true
}

// purgeDestination ends the open deliveries of a destination: those of events received, and of runs started, before
// a moment, now by default. After the answer no node makes such a delivery; their outcomes skipped (purged) follow.
// A repeat is harmless, and a moment before an earlier purge changes nothing.
func (a *destinations) purgeDestination(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	after, name, _, err := a.changeDestination(r, key, func(in *endpointInput, o *frame.Object, d *config.Destination) {
		if before := a.purgeTime(o, a.RequestTime(r)); in.Err == nil && before.After(d.PurgeBefore) {
			d.PurgeBefore = before
		}
	})
	if err != nil {
		return err
	}
	return web.Answer(w, http.StatusOK, struct {
		ID           string   `json:"id"`
		Object       string   `json:"object"`
		PurgedBefore web.Time `json:"purged_before"`
	}{name, "destination", web.Time(after.Destination(name).PurgeBefore)})
}

// purgeTime reads the member before. IDs have millisecond precision, so the default is the end of the current
// millisecond: it includes everything that was acknowledged before the call.
func (a *destinations) purgeTime(o *frame.Object, now time.Time) time.Time {
	before := now.Add(time.Millisecond)
	if raw, ok := o.RawOfKind("before", frame.KindString); ok {
		text, err := web.DecodeString(raw)
		t, good := web.ParseMoment(text, now)
		switch {
		case err != nil || !good:
			o.Fail("before", web.MomentForms)
		case t.After(a.Clock()):
			o.Fail("before", "must not be later than now")
		}
		before = t
	}
	o.RefuseUnknown() // a misspelled time must not purge everything
	return before
}

// maxLookups bounds the host names that one request resolves, each within half a second.
const maxLookups = 4

// maxLookupsPerMinute bounds the host names that this node resolves for an account, so that saving destinations
// cannot be used to scan a network's names.
const maxLookupsPerMinute = 60

// lookups counts the names that were resolved in the current minute.
type lookups struct {
	mu     sync.Mutex // guards the fields below
	minute time.Time
	count  map[string]int // by account, in that minute
}

// allow counts one more name of the account and reports whether it may be resolved.
func (l *lookups) allow(account string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if minute := now.Truncate(time.Minute); !minute.Equal(l.minute) {
		l.minute, l.count = minute, make(map[string]int)
	}
	if l.count[account] >= maxLookupsPerMinute {
		return false
	}
	l.count[account]++
	return true
}

// warnAddresses resolves the hosts that a change added and warns about blocked addresses. The delivery itself checks
// the address again when it connects.
func (a *endpoints) warnAddresses(ctx context.Context, in *endpointInput, before, after *config.Endpoint) {
	if a.Resolver == nil {
		return
	}
	seen := map[string]bool{}
	if before != nil {
		for _, d := range before.Destinations {
			seen[hostOf(d.URL)] = true
		}
	}
	n := 0
	for i, d := range after.Destinations {
		host := hostOf(d.URL)
		if seen[host] || n == maxLookups || !a.lookups.allow(after.Account, a.Now()) {
			continue
		}
		seen[host] = true
		n++
		if text := a.Egress.LookupWarning(ctx, a.Resolver, host); text != "" {
			in.Warn(frame.Indexed("destinations", i)+".url", text)
		}
	}
}

func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "" // cannot happen: stored URLs were parsed when they were saved
	}
	return u.Hostname()
}
