package scan

import (
	"testing"

	"github.com/eventrelay/relay/pkg/apikey"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// wire is a configuration with one tripwire, whose fingerprint is fpr_1 or the one that is set.
type wire struct {
	Configuration
	tripwire    leak.Tripwire
	fingerprint string
}

func (w *wire) TripwireByFingerprint(fingerprint string) *leak.Tripwire {
	if fingerprint == "fpr_1" || fingerprint == w.fingerprint {
		return &w.tripwire
	}
	return nil
}

// A tripwire of the scanned domain is no hit where it was planted: at its file's path, at one that its placement names,
// or anywhere if it names none. The exposed file that it is makes no hit either.
func TestDecoyInItsPlace(t *testing.T) {
	for _, c := range []struct {
		domain, file, placement, url string
		want                         bool
	}{
		{"dom_1", "/.env", "", "https://a.example/.env", true},
		{"dom_1", "/.env", "", "https://a.example/app.js", false},
		{"dom_2", "/.env", "", "https://a.example/.env", false},
		{"dom_1", "", "in the bundle", "https://a.example/app.js", true},
		{"dom_1", "", "in (/app.js).", "https://a.example/app.js", true},
		{"dom_1", "", "at https://a.example/app.js", "https://a.example/app.js", true},
		{"dom_1", "", "in /app.js", "https://a.example/other.js", false},
	} {
		w := &wire{tripwire: leak.Tripwire{Domain: c.domain, File: c.file, Placement: c.placement}}
		h := newHits(&Runner{deps: RunnerDeps{Config: w}}, &leak.Scan{Domain: "dom_1"}, nil, nil)
		x := &finding.Hit{Fingerprint: "fpr_1", Location: finding.Location{URL: c.url}}
		path, got := h.isInPlace(x)
		is.Equal(t, got, c.want, "%+v", c)
		if x.Fingerprint = "fpr_2"; got {
			h.decoys[c.url] = path
			h.list = []*finding.Hit{{Kind: finding.ExposedFile, Location: x.Location}, {Kind: finding.ExposedFile}}
			if h.dropDecoys(); len(h.list) != 1 {
				t.Errorf("%d exposed files", len(h.list))
			}
		}
		if _, other := h.isInPlace(x); other {
			t.Error("another secret is in its place")
		}
	}
}

// LeakedKey implements intake.LeakedKeys.
func (w *wire) LeakedKey(string) (*config.Key, bool) { return nil, false }

// A tripwire of another domain is a hit of its own, also on a website with more secrets than a scan has hits.
func TestTripwireIsSeenBesideManySecrets(t *testing.T) {
	rules := must.Get(secrets.New(secrets.ForLeaks))(t)
	w := &wire{tripwire: leak.Tripwire{Meta: entity.Meta{ID: "trw_1"}, Domain: "dom_2"}}
	h := newHits(&Runner{deps: RunnerDeps{Config: w}}, &leak.Scan{Domain: "dom_1"}, rules, &finding.Keys{})
	h.list = make([]*finding.Hit, maxHits)
	found := Found{Secret: []byte(apikey.New()), URL: "https://a.example/app.js"}
	rules.Scan(found.Secret, func(m secrets.Match) bool { found.Rule = m.Rule; return false })
	w.fingerprint = h.keys.Fingerprint(h.keys.SaltedHash(found.Rule.Canonical(found.Secret)))
	h.add(found)
	if len(h.list) != maxHits+1 || h.list[maxHits].Kind != finding.Tripwire || h.beyond != 0 {
		t.Errorf("%d hits, %d secrets beyond the bound", len(h.list), h.beyond)
	}
}
