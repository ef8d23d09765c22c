package ui

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/oidc"
	"github.com/eventrelay/relay/pkg/web"
)

// session is what the cookie of a person who is signed in holds.
type session struct {
	ID     string `json:"id"` // random
	User   string `json:"user"`
	Began  int64  `json:"began"`  // when the person signed in, Unix time in seconds
	Issued int64  `json:"issued"` // when the cookie was written, Unix time in seconds
	Epoch  int    `json:"epoch"`  // of the person; a higher one ends the session
	// Confirmed is when the sign-in began by which the person's issuer has confirmed the session; 0: the person has no
	// issuer.
	Confirmed int64 `json:"confirmed,omitempty"`
	// Refresh is where a visitor of the portal gets the next link; empty: nowhere.
	Refresh string `json:"refresh,omitempty"`
	// Theme is that of the address by which a visitor opened the portal; empty: that of the link.
	Theme string `json:"theme,omitempty"`
}

const (
	// sessionLife is how long a session lasts after the sign-in, whatever happens.
	sessionLife = 30 * 24 * time.Hour
	// sessionIdle is how long a session lasts after the last page that the person opened.
	sessionIdle = 12 * time.Hour
	// sessionRenewal is the age at which a page replaces the cookie.
	sessionRenewal = 5 * time.Minute
	// clockSkew is by how much the clock of the node that issued a cookie may be ahead of this one's.
	clockSkew = 2 * time.Minute
	// confirmLife is how long a session lasts after the issuer has confirmed it: less than an hour, whatever the clocks.
	// From confirmAgain on, a page that the person opens leads over the issuer.
	confirmLife  = 55 * time.Minute
	confirmAgain = 45 * time.Minute
)

// cookieName returns the name of a cookie. It differs between relays, since browsers send the cookies of a host to all
// of its ports. With https the prefix __Host- keeps other hosts of the domain from setting it.
func (v *Visit) cookieName(suffix string) string {
	d := v.Dashboard
	name := web.SessionCookie + web.SessionCookieID(d.Deps.Account(), d.Config.BaseURL)
	if v.Portal != nil {
		name += "-portal"
	}
	name += suffix
	if d.isSecure() {
		return "__Host-" + name
	}
	return name
}

func (d *Dashboard) isSecure() bool { return d.hosts.scheme == "https" }

// setCookie writes a cookie that lasts for life; a life of 0 or less deletes it.
func (v *Visit) setCookie(suffix, value string, life time.Duration) {
	age := int(life / time.Second)
	if life <= 0 {
		age = -1
	}
	c := &http.Cookie{Name: v.cookieName(suffix), Value: value, Path: "/", MaxAge: age,
		Secure: v.isSecure(), HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if v.Portal != nil && v.isEmbeddable() {
		c.Secure, c.SameSite, c.Partitioned = true, http.SameSiteNoneMode, true
	}
	http.SetCookie(v.W, c)
}

// setSealed writes a cookie whose value is content, sealed: AES-256-GCM under the session key, with the name of the
// cookie as additional data, so that no cookie is taken for another.
func (v *Visit) setSealed(suffix string, content any, life time.Duration) error {
	seal, err := v.sealer(v.R.Context())
	if err != nil {
		return err
	}
	text, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("encode a cookie: %w", err)
	}
	sealed := seal.Seal(nil, nil, text, []byte(v.cookieName(suffix)))
	v.setCookie(suffix, base64.RawURLEncoding.EncodeToString(sealed), life)
	return nil
}

// maxCookies bounds how many cookies of one name are tried: on plain http another program on the host can add some.
const maxCookies = 4

// openSealed reads a cookie into content and reports whether there is one that opens. Others are ignored: a new data
// directory meets the cookies of the old one.
func (v *Visit) openSealed(suffix string, content any) (bool, error) {
	name := v.cookieName(suffix)
	cookies := v.R.CookiesNamed(name)
	if len(cookies) == 0 {
		return false, nil
	}
	seal, err := v.sealer(v.R.Context())
	if err != nil {
		return false, err
	}
	for _, c := range cookies[:min(len(cookies), maxCookies)] {
		sealed, err := base64.RawURLEncoding.DecodeString(c.Value)
		if err != nil || len(sealed) < seal.Overhead() {
			continue
		}
		text, err := seal.Open(nil, nil, sealed, []byte(name))
		if err == nil && json.Unmarshal(text, content) == nil {
			return true, nil
		}
	}
	return false, nil
}

func (d *Dashboard) sealer(ctx context.Context) (cipher.AEAD, error) {
	key, err := d.Deps.Control.SessionKey(ctx)
	if err != nil {
		return nil, fmt.Errorf("session key: %w", toWebError(err))
	}
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// openSession sets the person whose session the cookie holds, if there is one. An error means that the session cannot
// be confirmed at the moment.
func (v *Visit) openSession() error {
	if v.Portal != nil {
		return v.openPortal()
	}
	var s session
	found, err := v.openSealed("", &s)
	if !found || err != nil {
		return err
	}
	if !s.lasts(v.Now()) {
		return nil
	}
	person, err := v.Deps.Control.SessionUser(s.User, s.ID, s.Epoch)
	switch {
	case errors.Is(err, config.ErrSessionEnded):
		return nil
	case err != nil:
		return toWebError(err)
	}
	v.Session = s
	if v.unconfirmed = !v.isConfirmed(person, confirmLife); !v.unconfirmed {
		v.Person = person
	}
	return nil
}

// isConfirmed reports whether the person needs no issuer, or the issuer has confirmed the session within life.
func (v *Visit) isConfirmed(person *config.User, life time.Duration) bool {
	age := v.Now().Sub(time.Unix(v.Session.Confirmed, 0))
	return person.Issuer == "" || v.Deps.OIDC.Issues(person) && age < life && age >= -clockSkew
}

// lasts reports whether the session has ended neither by its age nor since nobody used it.
func (s session) lasts(now time.Time) bool {
	age, idle := now.Sub(time.Unix(s.Began, 0)), now.Sub(time.Unix(s.Issued, 0))
	return age < sessionLife && idle < sessionIdle && min(age, idle) >= -clockSkew
}

// Ends is when the session ends whatever happens.
func (s session) Ends() time.Time { return time.Unix(s.Began, 0).Add(sessionLife) }

// BeginSession writes the cookie of a person who has just signed in. confirmed is when the sign-in at the person's
// issuer began, Unix time in seconds: its answer may be as old. 0: the person has no issuer. If the issuer has only
// confirmed the open session, that goes on: it would never end by its age otherwise.
func (v *Visit) BeginSession(person *config.User, confirmed int64) error {
	now := v.Now().Unix()
	s := session{ID: rand.Text(), User: person.ID, Began: now, Issued: now, Epoch: person.Epoch}
	if confirmed > 0 && v.Renews(person.ID) {
		s = v.Session
	}
	s.Confirmed = confirmed
	return v.setSession(s)
}

// Renews reports whether a person has an open session in this browser, which the issuer confirms again.
func (v *Visit) Renews(person string) bool {
	return v.Session.User == person && v.Session.Confirmed > 0
}

// renewSession replaces the cookie of a session when the person opens a page. Nothing that a script or a page asks for
// by itself counts: an open tab would keep the session for ever, and an answer that arrives after the sign-out would
// begin it again.
func (v *Visit) renewSession() error {
	now := v.Now()
	if v.Person == nil || v.Portal != nil || v.SelfReloading || !v.IsNavigation() ||
		now.Sub(time.Unix(v.Session.Issued, 0)) < sessionRenewal {
		return nil
	}
	renewed := v.Session
	renewed.Issued = now.Unix()
	return v.setSession(renewed)
}

// IsNavigation reports whether the browser opens a page with GET, as opposed to a script. Over plain http on a LAN
// browsers do not say so themselves, but live.js does.
func (v *Visit) IsNavigation() bool {
	h := v.R.Header
	return v.R.Method == http.MethodGet && v.Part() == "" &&
		(h.Get("Sec-Fetch-Mode") == "" || h.Get("Sec-Fetch-Mode") == "navigate")
}

func (v *Visit) setSession(s session) error {
	return v.setSealed("", s, min(sessionIdle, s.Ends().Sub(v.Now())))
}

// DeleteCookie deletes the cookie of the session.
func (v *Visit) DeleteCookie() { v.setCookie("", "", 0) }

// Principal returns the person as a caller of the API.
func (v *Visit) Principal() *config.Key {
	if v.Portal != nil {
		return v.Portal.PrincipalFor(v.R.Method != http.MethodGet)
	}
	return principalOf(v.Person)
}

func principalOf(person *config.User) *config.Key {
	return &config.Key{ID: person.ID, Account: person.Account, Name: person.Email, Scope: person.Scope}
}

// CheckSession returns the person as a caller of the API, as the configuration says now; see [config.WithSessionCheck].
func (v *Visit) CheckSession() (*config.Key, error) {
	if v.Portal != nil {
		if _, err := v.Deps.Control.PortalSession(v.Person.ID); err != nil {
			return nil, err
		}
		return v.Principal(), nil
	}
	person, err := v.Deps.Control.SessionUser(v.Person.ID, v.Session.ID, v.Session.Epoch)
	switch {
	case err != nil:
		return nil, err
	case !v.isConfirmed(person, confirmLife):
		return nil, config.ErrSessionEnded
	}
	return principalOf(person), nil
}

// toastLife is how long a message waits for the page that shows it.
const toastLife = time.Minute

// toastCookie is the suffix of the cookie that holds the message of a redirect.
const toastCookie = "-toast"

// setToast makes the next page show a message of at most 300 bytes.
func (v *Visit) setToast(message string) error {
	const most = 300
	if len(message) > most {
		message = Truncate(message, most)
	}
	return v.setSealed(toastCookie, message, toastLife)
}

// takeToast returns the message for this page, once.
func (v *Visit) takeToast() string {
	var message string
	if found, err := v.openSealed(toastCookie, &message); !found || err != nil {
		return ""
	}
	v.setCookie(toastCookie, "", 0)
	return message
}

// choicesLife is how long a browser keeps what a person has chosen for a list: browsers allow no more.
const choicesLife = 400 * 24 * time.Hour

// Choices reads what a person has chosen for a list in this browser; out stays as it is without that.
func (v *Visit) Choices(suffix string, out any) (found bool, err error) {
	return v.openSealed(suffix, out)
}

// SetChoices stores what a person has chosen for a list, at most 3 KB of JSON, in this browser.
func (v *Visit) SetChoices(suffix string, choices any) error {
	return v.setSealed(suffix, choices, choicesLife)
}

// pendingCookie is the suffix of the cookie of a sign-in at the issuer. Several tabs may begin one: each has one of
// eight cookies, by its state.
func pendingCookie(state string) string {
	if state == "" {
		return "-oidc"
	}
	return "-oidc" + strconv.Itoa(int(state[0])%8)
}

// KeepPending stores a sign-in at the issuer in the browser: any node can end it.
func (v *Visit) KeepPending(p oidc.Pending) error {
	return v.setSealed(pendingCookie(p.State), p, oidc.PendingLife)
}

// TakePending returns the sign-in with a state that was begun in this browser, once; a zero one if there is none.
func (v *Visit) TakePending(state string) (p oidc.Pending, err error) {
	found, err := v.openSealed(pendingCookie(state), &p)
	if !found || p.State != state {
		return oidc.Pending{}, err
	}
	v.setCookie(pendingCookie(state), "", 0)
	return p, nil
}
