package config

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/filter"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/config/require"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/finding"
	leaks "github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/verify"
	"github.com/eventrelay/relay/test/is"
)

// refuses checks that an import accepts a value, and refuses it after each of the changes with an error that contains
// the change's name up to a "#".
func refuses[T entity.Value](t *testing.T, valid func() T, changes map[string]func(T)) {
	t.Helper()
	if err := validate(valid(), anyURL); err != nil {
		t.Errorf("%T: %v", valid(), err)
	}
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		v := valid()
		changes[name](v)
		words, _, _ := strings.Cut(name, "#")
		is.Failed(t, validate(v, anyURL), words, "%T with a fault in %s", v, name)
	}
}

// long is a text of n characters of two bytes.
func long(n int) string { return strings.Repeat("é", n) }

// many returns a map with n members.
func many[V any](n int, v V) map[string]V {
	m := make(map[string]V, n)
	for len(m) < n {
		m[strings.Repeat("k", len(m)+1)] = v
	}
	return m
}

// largestEndpoint returns an endpoint whose members have the largest values that are valid.
func largestEndpoint(t *testing.T) *Endpoint {
	t.Helper()
	keys := must(seal.NewKeyring(seal.GenerateKey("test")))(t)
	e := endpoint(keys)
	text, source, events, bytes := long(maxDescription), "body:$.type", 100_000, 1<<30
	name := long(require.MaxName)
	e.Name, e.Description, e.TypeSource, e.Metadata = name, &text, &source, many(maxMetadataCount, long(maxMetadataText))
	e.Dedup = &Dedup{Key: "body:$.id", WindowSeconds: maxDay}
	e.Verification = &Verification{Type: verify.HMAC, Mode: "observe", Secrets: make([]seal.Secret, verify.MaxSecrets),
		ToleranceSeconds: maxDay, Algorithm: "sha1"}
	e.IngestLimit = &IngestLimit{&events, &bytes}
	e.Response.Body = long(16 << 10)
	d := &e.Destinations[0]
	d.Name, d.TimeoutSeconds, d.MaxInFlight, d.Headers = &name, 60, 1000, many(maxAddedHeaders, seal.Secret("x"))
	d.Secrets, d.RateLimit = make([]SigningSecret, 10), &RateLimit{10_000, 10_000}
	d.Filter = &filter.Filter{Types: make([]string, 50), Body: many(20, any(nil))}
	e.Destinations = slices.Repeat(e.Destinations, require.MaxDestinations)
	return e
}

func TestImportedEndpointsAreValidated(t *testing.T) {
	first := func(change func(*Destination)) func(*Endpoint) {
		return func(e *Endpoint) {
			d := e.Destinations[0]
			filter, rate := *d.Filter, *d.RateLimit
			d.Filter, d.RateLimit, d.Headers = &filter, &rate, maps.Clone(d.Headers)
			change(&d)
			e.Destinations[0] = d
		}
	}
	pointer := func(s string) *string { return &s }
	refuses(t, func() *Endpoint { return largestEndpoint(t) }, map[string]func(*Endpoint){
		"name":                  func(e *Endpoint) { e.Name = "" },
		"name#long":             func(e *Endpoint) { e.Name += "x" },
		"name#text":             func(e *Endpoint) { e.Name = "\xff" },
		"description":           func(e *Endpoint) { e.Description = pointer(long(maxDescription + 1)) },
		"provider":              func(e *Endpoint) { e.Provider = "x" },
		"destinations":          func(e *Endpoint) { e.Destinations = nil },
		"destinations#many":     func(e *Endpoint) { e.Destinations = append(e.Destinations, e.Destinations[0]) },
		"metadata#many":         func(e *Endpoint) { e.Metadata["x"] = "" },
		"metadata#value":        func(e *Endpoint) { e.Metadata["k"] += "x" },
		"key of metadata":       func(e *Endpoint) { e.Metadata = many(1, ""); e.Metadata[long(65)] = "" },
		"key of metadata#empty": func(e *Endpoint) { e.Metadata = map[string]string{"": ""} },
		"empty member":          func(e *Endpoint) { e.TypeSource = pointer("body") },
		"want one of":           func(e *Endpoint) { e.Dedup.Key = "x" },
		"dedup.window_seconds":  func(e *Endpoint) { e.Dedup.WindowSeconds = maxDay + 1 },
		"dedup.window_seconds#": func(e *Endpoint) { e.Dedup.WindowSeconds = 0 },

		"verification: type":             func(e *Endpoint) { e.Verification.Type = verify.Generic },
		"verification: header":           func(e *Endpoint) { e.Verification.Header = "a b" },
		"verification: algorithm":        func(e *Endpoint) { e.Verification.Algorithm = "md5" },
		"verification: encoding":         func(e *Endpoint) { e.Verification.Encoding = "base32" },
		"verification: prefix":           func(e *Endpoint) { e.Verification.Prefix = "\n" },
		"verification: signed_content":   func(e *Endpoint) { e.Verification.SignedContent = "x" },
		"verification.mode":              func(e *Endpoint) { e.Verification.Mode = "off" },
		"verification.secrets":           func(e *Endpoint) { e.Verification.Secrets = nil },
		"verification.secrets#many":      func(e *Endpoint) { e.Verification.Secrets = make([]seal.Secret, 4) },
		"verification.tolerance_seconds": func(e *Endpoint) { e.Verification.ToleranceSeconds = maxDay + 1 },

		"ingest_limit.events_per_second":  func(e *Endpoint) { *e.IngestLimit.EventsPerSecond = 0 },
		"ingest_limit.events_per_second#": func(e *Endpoint) { *e.IngestLimit.EventsPerSecond = 100_001 },
		"ingest_limit.bytes_per_second":   func(e *Endpoint) { *e.IngestLimit.BytesPerSecond = 1<<10 - 1 },
		"ingest_limit.bytes_per_second#":  func(e *Endpoint) { *e.IngestLimit.BytesPerSecond = 1<<30 + 1 },

		"response.status":        func(e *Endpoint) { e.Response.Status = 300 },
		"response.status#":       func(e *Endpoint) { e.Response.Status = 199 },
		"response.body":          func(e *Endpoint) { e.Response.Body += "x" },
		"response.content_type":  func(e *Endpoint) { e.Response.ContentType = "text/html" },
		"retry_policy.strategy":  func(e *Endpoint) { e.RetryPolicy.Strategy = "x" },
		"retry_policy.retry_on":  func(e *Endpoint) { e.RetryPolicy.RetryOn = make([]string, 51) },
		"retry_policy.jitter":    func(e *Endpoint) { e.RetryPolicy.Jitter = math.NaN() },
		"retry_policy.jitter#":   func(e *Endpoint) { e.RetryPolicy.Jitter = 1.5 },
		"max_retry_after":        func(e *Endpoint) { e.RetryPolicy.MaxRetryAfterSeconds = maxDay + 1 },
		"retry_policy.schedule":  func(e *Endpoint) { e.RetryPolicy.ScheduleSeconds = nil },
		"retry_policy.schedule#": func(e *Endpoint) { e.RetryPolicy.ScheduleSeconds[0] = math.MaxInt32 },
		"schedule_seconds#many":  func(e *Endpoint) { e.RetryPolicy.ScheduleSeconds = slices.Repeat([]int{5}, 51) },
		"max_attempts":           func(e *Endpoint) { e.RetryPolicy.MaxAttempts = 0 },

		"destination dst_":         first(func(d *Destination) { d.Name = pointer(long(require.MaxName + 1)) }),
		"timeout_seconds":          first(func(d *Destination) { d.TimeoutSeconds = 0 }),
		"timeout_seconds#":         first(func(d *Destination) { d.TimeoutSeconds = 61 }),
		"max_in_flight":            first(func(d *Destination) { d.MaxInFlight = 1001 }),
		"headers":                  first(func(d *Destination) { d.Headers["x"] = "" }),
		"not a valid header name":  first(func(d *Destination) { d.Headers = map[string]seal.Secret{"": "", "a:b": ""} }),
		"not a valid header name#": first(func(d *Destination) { d.Headers = map[string]seal.Secret{"a\nb": ""} }),
		"not a valid header name#long": first(func(d *Destination) {
			d.Headers = map[string]seal.Secret{strings.Repeat("a", 129): ""}
		}),
		"signing secrets":           first(func(d *Destination) { d.Secrets = nil }),
		"signing secrets#many":      first(func(d *Destination) { d.Secrets = make([]SigningSecret, 11) }),
		"rate_limit.per_second":     first(func(d *Destination) { d.RateLimit.PerSecond = 0 }),
		"rate_limit.per_second#nan": first(func(d *Destination) { d.RateLimit.PerSecond = math.NaN() }),
		"rate_limit.burst":          first(func(d *Destination) { d.RateLimit.Burst = 0 }),
		"filter.types":              first(func(d *Destination) { d.Filter.Types = make([]string, 51) }),
		"filter.body":               first(func(d *Destination) { d.Filter.Body = many(21, any(true)) }),
		"path of filter.body":       first(func(d *Destination) { d.Filter.Body = map[string]any{"": true} }),
		"only strings":              first(func(d *Destination) { d.Filter.Body = map[string]any{"a": []any{}} }),
	})
	err := validate(largestEndpoint(t), func(string) error { return errors.New("points to this relay") })
	is.Failed(t, err, "points to this relay", "a destination whose URL is refused")
}

func TestImportedAccountsAndPeopleAreValidated(t *testing.T) {
	refuses(t, func() *Key { return &Key{Scope: Read} }, map[string]func(*Key){"scope": func(k *Key) { k.Scope = "all" }})
	refuses(t, func() *ServiceSecret { return &ServiceSecret{Meta: entity.Meta{ID: serviceSecretID}} },
		map[string]func(*ServiceSecret){"id": func(s *ServiceSecret) { s.ID = "other" }})
	refuses(t, func() *entity.Account { return &entity.Account{FPSalt: make([]byte, entity.FPSaltBytes)} },
		map[string]func(*entity.Account){
			"fp_salt": func(a *entity.Account) { a.FPSalt = a.FPSalt[1:] }})
	refuses(t, func() *User {
		return &User{Meta: entity.Meta{ID: UserID("ops@example.com")}, Email: "ops@example.com", Scope: Read, Epoch: 1 << 53,
			EndedSessions: make([]EndedSession, maxEndedSessions)}
	}, map[string]func(*User){
		"email":          func(u *User) { u.Email = "Ops@example.com" },
		"email#id":       func(u *User) { u.ID = UserID("x@example.com") },
		"email#none":     func(u *User) { u.Email = "" },
		"hash":           func(u *User) { u.Password = "password" },
		"scope":          func(u *User) { u.Scope = "" },
		"epoch":          func(u *User) { u.Epoch = -1 },
		"ended_sessions": func(u *User) { u.EndedSessions = append(u.EndedSessions, EndedSession{}) },
	})
	u := &User{Meta: entity.Meta{ID: UserID("ops@example.com")}, Email: "ops@example.com", Scope: Read, Link: &Link{}}
	if err := validate(u, anyURL); err != nil || u.Link != nil {
		t.Errorf("an import brings the link %+v (%v)", u.Link, err)
	}
}

func TestImportedAlertsAreValidated(t *testing.T) {
	refuses(t, func() *alerting.Alert {
		return &alerting.Alert{Notices: make([]alerting.AlertNotice, alerting.MaxAlertNotices)}
	}, map[string]func(*alerting.Alert){
		"notices": func(a *alerting.Alert) { a.Notices = append(a.Notices, alerting.AlertNotice{}) }})
	refuses(t, func() *alerting.AlertSettings {
		s := &alerting.AlertSettings{}
		for i := range alerting.MaxAlertChannels {
			s.Channels = append(s.Channels, alerting.AlertChannel{Kind: strings.Repeat("x", i), To: make([]string,
				alerting.MaxAlertAddresses)})
		}
		return s
	}, map[string]func(*alerting.AlertSettings){
		"channels": func(s *alerting.AlertSettings) {
			s.Channels = append(s.Channels, alerting.AlertChannel{Kind: "another"})
		},
		"channels.to": func(s *alerting.AlertSettings) { s.Channels[3].To = make([]string, alerting.MaxAlertAddresses+1) },
		"twice":       func(s *alerting.AlertSettings) { s.Channels[1].Kind = s.Channels[0].Kind },
	})
}

func TestImportedJobsAreValidated(t *testing.T) {
	refuses(t, func() *jobs.Recovery {
		return &jobs.Recovery{State: jobs.RecoveryReady, RatePerSecond: 100, Destinations: make([]jobs.RecoveryDestination,
			require.MaxDestinations)}
	}, map[string]func(*jobs.Recovery){
		"state":           func(r *jobs.Recovery) { r.State = "x" },
		"rate_per_second": func(r *jobs.Recovery) { r.RatePerSecond = 0 },
		"destinations":    func(r *jobs.Recovery) { r.Destinations = append(r.Destinations, jobs.RecoveryDestination{}) },
	})
	refuses(t, func() *Action {
		text, json := strings.Repeat("x", maxActionText), strings.Repeat("x", maxActionJSON)
		return &Action{State: ActionDone, Summary: text, Note: text, Result: text, Arguments: json, Body: json}
	}, map[string]func(*Action){
		"state": func(a *Action) { a.State = ActionExpired }, "summary": func(a *Action) { a.Summary += "x" },
		"note": func(a *Action) { a.Note += "x" }, "result": func(a *Action) { a.Result += "x" },
		"arguments": func(a *Action) { a.Arguments += "x" }, "body": func(a *Action) { a.Body += "x" },
	})
	refuses(t, func() *leak.Scan { return &leak.Scan{Status: leak.ScanQueued, Trigger: leak.ScanWeekly} },
		map[string]func(*leak.Scan){
			"status": func(s *leak.Scan) { s.Status = "x" }, "trigger": func(s *leak.Scan) { s.Trigger = "x" }})
	refuses(t, func() *Settings { return &Settings{} }, map[string]func(*Settings){
		"detection.version": func(s *Settings) { s.Detection.Version = -1 },
		"rules[0].min": func(s *Settings) {
			s.Detection.Rules = []leaks.Custom{ownRule("one", "one_")}
			s.Detection.Rules[0].Min = 1
		}})
	if err := validate(&Erasure{Meta: entity.Meta{ID: "evt_1"}}, anyURL); err == nil {
		t.Error("an erasure of no event is accepted")
	}
}

func TestImportedSourcesAreValidated(t *testing.T) {
	hash := entity.HashOf("x")
	refuses(t, func() *leak.Drain {
		return &leak.Drain{Hash: hash[:], Name: long(require.MaxName), Platform: leak.PlatformVercel, Version: 1 << 53}
	}, map[string]func(*leak.Drain){
		"hash": func(d *leak.Drain) { d.Hash = hash[1:] }, "name": func(d *leak.Drain) { d.Name = "" },
		"name#long": func(d *leak.Drain) { d.Name += "x" }, "platform": func(d *leak.Drain) { d.Platform = "x" },
		"version":                func(d *leak.Drain) { d.Version = 0 },
		leak.ErrUnsigned.Error(): func(d *leak.Drain) { d.Platform, d.Sealed.SigningSecret = leak.PlatformHeroku, "x" },
	})
	refuses(t, func() *leak.DSN {
		return &leak.DSN{Hash: hash[:], Name: long(require.MaxName), Platform: leak.DSNBrowser, Version: 1,
			DailyQuota:     leak.MaxDailyQuota,
			AllowedOrigins: slices.Repeat([]string{"https://*.example.com"}, leak.MaxOrigins)}
	}, map[string]func(*leak.DSN){
		"hash": func(d *leak.DSN) { d.Hash = nil }, "name": func(d *leak.DSN) { d.Name = "" },
		"platform": func(d *leak.DSN) { d.Platform = "x" }, "version": func(d *leak.DSN) { d.Version = 0 },
		"quota":          func(d *leak.DSN) { d.DailyQuota = leak.MaxDailyQuota + 1 },
		"quota#":         func(d *leak.DSN) { d.DailyQuota = -1 },
		"only browsers":  func(d *leak.DSN) { d.Platform = leak.DSNServer },
		"origins":        func(d *leak.DSN) { d.AllowedOrigins = append(d.AllowedOrigins, "https://a.example") },
		"no origin":      func(d *leak.DSN) { d.AllowedOrigins[0] = "https://A.example" },
		"no origin#path": func(d *leak.DSN) { d.AllowedOrigins[1] = "https://a.example/x" },
	})
	refuses(t, func() *leak.Domain {
		d := &leak.Domain{Hostname: "www.example.com"}
		noError(t, d.Derive(nil, nil))
		d.Checked.Seen = strings.Repeat("x", 400)
		return d
	}, map[string]func(*leak.Domain){
		"hash":     func(d *leak.Domain) { d.Hash = hash[:] },
		"hostname": func(d *leak.Domain) { d.Hostname = ""; noError(t, d.Derive(nil, nil)) },
		"token":    func(d *leak.Domain) { d.Token = d.Token[1:] }, "token#": func(d *leak.Domain) { d.Token += "x" },
		"method": func(d *leak.Domain) { d.Method = "x" }, "checked.method": func(d *leak.Domain) { d.Checked.Method = "x" },
		"checked.error": func(d *leak.Domain) { d.Checked.Error = "x" },
		"checked.seen":  func(d *leak.Domain) { d.Checked.Seen += "x" },
	})
	refuses(t, func() *leak.Tripwire {
		return &leak.Tripwire{Kind: leak.TripwireFile, File: leak.FakeFiles[0], Label: "a",
			Key: &leak.TripwireSecret{Hash: hash[:]},
			URL: &leak.TripwireSecret{Hash: hash[:]}, Placement: long(leak.MaxPlacement)}
	}, map[string]func(*leak.Tripwire){
		"hash of key":               func(x *leak.Tripwire) { x.Key.Hash = nil },
		"hash of url":               func(x *leak.Tripwire) { x.URL.Hash = hash[1:] },
		"secrets are not those":     func(x *leak.Tripwire) { x.Key = nil },
		"secrets are not those#url": func(x *leak.Tripwire) { x.URL = nil },
		"kind":                      func(x *leak.Tripwire) { x.Kind = "x" },
		"file":                      func(x *leak.Tripwire) { x.File = "/x" },
		"file#of a key":             func(x *leak.Tripwire) { x.Kind, x.URL = leak.TripwireKey, nil },
		"label":                     func(x *leak.Tripwire) { x.Label = "" },
		"placement":                 func(x *leak.Tripwire) { x.Placement += "x" },
	})
	refuses(t, func() *leak.Finding { f := newFinding(); f.Version, f.Note = 1, long(leak.MaxFindingNote); return &f },
		map[string]func(*leak.Finding){
			"#id": func(f *leak.Finding) { f.ID = "fnd_1" }, "severity#high": func(f *leak.Finding) { f.Severity = 9 },
			"kind": func(f *leak.Finding) { f.Kind = "x" }, "status": func(f *leak.Finding) { f.Status = "x" },
			"version":  func(f *leak.Finding) { f.Version = 0 },
			"severity": func(f *leak.Finding) { f.Severity = finding.Low - 1 }, "rule": func(f *leak.Finding) { f.Rule = "" },
			"masked":        func(f *leak.Finding) { f.Masked = long(require.MaxName + 1) },
			"note":          func(f *leak.Finding) { f.Note += "x" },
			"label":         func(f *leak.Finding) { f.First.Label = long(require.MaxName + 1) },
			"ignore_reason": func(f *leak.Finding) { f.Status = finding.Ignored },
			"resolution":    func(f *leak.Finding) { f.Status = finding.Resolved },
		})
	refuses(t, func() *Fixture { f := testFixture(t, "x", time.Hour); f.Version = 1; return f }, map[string]func(*Fixture){
		"version": func(f *Fixture) { f.Version = 0 }, "size": func(f *Fixture) { f.Size-- },
		"size#large": func(f *Fixture) { f.Size++ }, "#name": func(f *Fixture) { f.Name = "" },
		"#method": func(f *Fixture) { f.Method = "GET" }, "#status": func(f *Fixture) { f.Status = 99 },
		"event": func(f *Fixture) { f.Event = "x" }, "#content": func(f *Fixture) { f.Content = []byte("x") },
		"#bomb": func(f *Fixture) { f.Content = []byte("\xff\xff\xff\xff\x0f") },
	})
}
