package lane

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/sign"
)

func testKeyring(t *testing.T) *seal.Keyring {
	t.Helper()
	keyring, err := seal.NewKeyring(seal.GenerateKey("test"))
	if err != nil {
		t.Fatal(err)
	}
	return keyring
}

// The URL of a target, which attempts record, has no credentials. What cannot be opened or parsed is an error: a
// request without its header or signature must not be sent.
func TestOpenTarget(t *testing.T) {
	keyring, secret := testKeyring(t), sign.NewSecret()
	dest := func() *config.Destination {
		return &config.Destination{
			ID: "d", URL: "https://user:password@example.com/hook?a=1#part", TimeoutSeconds: 7,
			Headers: map[string]seal.Secret{"x-key": keyring.SealString("d", seal.FieldHeader("x-key"), "value")},
			Secrets: []config.SigningSecret{{Secret: keyring.SealString("d", seal.FieldSecret, secret.Reveal())}},
		}
	}
	target, err := openTarget(keyring, &config.Endpoint{Rev: 5, KeepMethod: true}, dest())
	if err != nil {
		t.Fatal(err)
	}
	if want := "https://example.com/hook?a=1"; target.URLText != want || target.URL.String() != want {
		t.Errorf("the URL is %s, as text %s", target.URL, target.URLText)
	}
	if d := cmp.Diff([]event.Field{{Name: "X-Key", Value: "value"}}, target.Header); d != "" {
		t.Error(d)
	}
	if target.Rev != 5 || !target.KeepMethod || target.Timeout != 7*time.Second ||
		len(target.SigningSecrets(time.Now())) != 1 {
		t.Errorf("%+v", target)
	}
	for want, spoil := range map[string]func(*config.Destination){
		"parse url of d":      func(d *config.Destination) { d.URL = "https://[" },
		"open header":         func(d *config.Destination) { d.Headers["x-other"] = "test:AAAA" },
		"open signing secret": func(d *config.Destination) { d.Secrets[0].Secret = d.Headers["x-key"] },
		"read signing secret of d": func(d *config.Destination) {
			d.Secrets[0].Secret = keyring.SealString("d", seal.FieldSecret, "?")
		},
	} {
		d := dest()
		spoil(d)
		target, err := openTarget(keyring, &config.Endpoint{Rev: 5}, d)
		if err == nil || target != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v, %v, want %q", target, err, want)
		}
	}
}

// A secret signs until its time, also when another one has replaced it.
func TestSigningSecrets(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	live, old, last := sign.NewSecret(), sign.NewSecret(), sign.NewSecret()
	target := &Target{Secrets: []LiveSecret{{live, time.Time{}}, {old, now}, {last, now.Add(1)}}}
	var got []string
	for _, secret := range target.SigningSecrets(now) {
		got = append(got, secret.Reveal())
	}
	if !slices.Equal(got, []string{live.Reveal(), last.Reveal()}) {
		t.Errorf("%d secrets sign", len(got))
	}
}

// The opened destination is kept until the endpoint changes, and then the lane follows its limit.
func TestTargetFollowsTheEndpoint(t *testing.T) {
	lt := newLaneTest(t, 100)
	lt.keyring = testKeyring(t)
	lt.fill("d", 1)
	l := lt.byDest["d"]
	open := func(rev int64, url string, maxInFlight int) *Target {
		t.Helper()
		target, err := l.Target(Eligibility{Endpoint: &config.Endpoint{Rev: rev},
			Destination: &config.Destination{ID: "d", URL: url, MaxInFlight: maxInFlight}})
		if (err != nil) != (url == "https://[") {
			t.Fatal(err)
		}
		return target
	}
	first := open(1, "https://a", 3)
	if l.window.limit != 3 || open(1, "https://a", 3) != first {
		t.Errorf("it is opened again; the window is %+v", l.window)
	}
	if second := open(2, "https://b", 2); second.URLText != "https://b" || l.window.limit != 2 {
		t.Errorf("after a change: %s, window %+v", second.URLText, l.window)
	}
	if broken := open(3, "https://[", 2); broken != nil {
		t.Errorf("a broken URL gives %+v", broken)
	}
}

// A transformed body counts from the moment its length is known, and memory that it does not need is released.
func TestReserve(t *testing.T) {
	lt := newLaneTest(t, 100)
	delivery := lt.delivery("d", "")
	delivery.Size, delivery.Reserved = 1500, 500
	lt.enqueue(delivery)
	l := lt.byDest["d"]
	for _, c := range []struct {
		reserved, size int
		freed          bool
	}{{700, 1700, false}, {700, 1700, false}, {100, 1100, true}} {
		l.Reserve(delivery, c.reserved)
		if _, bytes := lt.InMemory(); delivery.Reserved != c.reserved || delivery.Size != c.size || l.bytes != c.size ||
			bytes != c.size {
			t.Errorf("%d bytes reserved: %d in all, %d in the lane, %d on the node", c.reserved, delivery.Size, l.bytes, bytes)
		}
		select {
		case <-lt.Freed():
			if !c.freed {
				t.Errorf("%d bytes reserved: memory is reported as freed", c.reserved)
			}
		default:
			if c.freed {
				t.Errorf("%d bytes reserved: the reader is not woken", c.reserved)
			}
		}
	}
}

// A delivery that is larger than a lane may hold is sent all the same, alone.
func TestLargeDeliveryIsQueuedInAnEmptyLane(t *testing.T) {
	lt := newLaneTest(t, 100)
	lt.maxBytes = 1000
	large := lt.delivery("d", "")
	large.Size = 5000
	lt.part.streak, lt.part.lastDest = 0, "d"
	lt.laneOf(large, lt.now).pace.budget = -time.Hour
	if r := lt.enqueue(large); r != "" {
		t.Errorf("it is parked: %s", r)
	}
	if r := lt.enqueue(lt.delivery("d", "")); r != event.LaneFull {
		t.Errorf("another one beside it: %q", r)
	}
}
