package leak

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"strings"
	"unicode"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/require"
	"github.com/eventrelay/relay/pkg/config/seal"
)

// DSN allows applications with the SDK to send reports (docs/design/reports.md). It is public: whoever uses the
// application can read it, and its platform says how far its reports are believed.
type DSN struct {
	entity.Meta
	Name     string `json:"name"`
	Platform string `json:"platform"` // one of DSNPlatforms; it never changes
	// AllowedOrigins are the origins of the pages that may send reports, as ParseOrigin returns them; empty = all. Only
	// for browsers.
	AllowedOrigins []string `json:"origins,omitempty"`
	DailyQuota     int      `json:"quota,omitempty"` // reports of a UTC day; 0 = no limit
	// Version counts the changes, from 1.
	Version int    `json:"version"`
	Hash    []byte `json:"hash"` // SHA-256 of the key; see hashed
	Sealed  struct {
		// Key has 22 characters of base62. PublicKey joins it with the salt of the account.
		Key seal.Secret `json:"key"`
	} `json:"sealed"`
	// KeyRotatedBy is Answer.IDSeed of the call that rotated to this key, if it had an Idempotency-Key.
	KeyRotatedBy string `json:"key_by,omitempty"`
	CreatedBy    string `json:"created_by"` // key_… or usr_…
}

func (*DSN) EntityKind() entity.Kind { return entity.KindDSN }

func (d *DSN) Hashed() entity.HashedSecret {
	return entity.HashedSecret{Hash: &d.Hash, Field: seal.FieldDSNKey, Sealed: d.Sealed.Key}
}

// Platforms of DSNs. Reports of browsers are unverified: everybody who opens the page can send some.
const (
	DSNServer  = "server"
	DSNBrowser = "browser"
)

// DSNPlatforms are the platforms of DSNs.
var DSNPlatforms = []string{DSNServer, DSNBrowser}

// Bounds of DSNs.
const (
	MaxDSNs       = 100 // of an account
	MaxOrigins    = 20  // of a DSN
	MaxDailyQuota = 10_000_000
	maxOrigin     = 300 // bytes
)

// DSNByKey returns the DSN with that id and public key; nil if there is none.
func (c Findings) DSNByKey(id, publicKey string) *DSN {
	d, _ := entity.Get[DSN](c, id)
	key, salt, ok := splitPublicKey(publicKey)
	if entity.IsHashOf(cmp.Or(d, &DSN{}).Hash, key) && ok && bytes.Equal(salt, c.Account().FPSalt) {
		return d
	}
	return nil
}

const (
	publicKeyPrefix = "pk"
	base62          = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	base62Length    = 22 // ceil(128 / log2(62))
)

// PublicKey returns the public key of a DSN, which has the salt of the account's fingerprints.
func (c Findings) PublicKey(ctx context.Context, d *DSN) (string, error) {
	key, err := c.Keyring.OpenString(d.ID, seal.FieldDSNKey, d.Sealed.Key)
	if err != nil {
		return "", fmt.Errorf("open the key of %s: %w", d.ID, err)
	}
	account, err := c.AccountWithSalt(ctx)
	if err != nil {
		return "", err
	}
	return publicKeyPrefix + key + encodeBase62(account.FPSalt, base62Length), nil
}

// splitPublicKey returns the key and the salt in a public key.
func splitPublicKey(text string) (key string, salt []byte, ok bool) {
	rest, ok := strings.CutPrefix(text, publicKeyPrefix)
	if !ok || len(rest) != 2*base62Length {
		return "", nil, false
	}
	number, ok := new(big.Int).SetString(strings.Map(swapCase, rest[base62Length:]), 62)
	if !ok || number.BitLen() > 8*entity.FPSaltBytes {
		return "", nil, false
	}
	salt = number.FillBytes(make([]byte, entity.FPSaltBytes))
	return rest[:base62Length], salt, encodeBase62(salt, base62Length) == rest[base62Length:] // it has no sign
}

// encodeBase62 returns the last n digits of a big-endian number in base62, whose digits are in the order of ASCII.
func encodeBase62(b []byte, n int) string {
	text := strings.Repeat("0", n) + strings.Map(swapCase, new(big.Int).SetBytes(b).Text(62))
	return text[len(text)-n:]
}

// swapCase converts between base62 and the digits of big.Int, which has the small letters before the capital ones.
func swapCase(c rune) rune {
	if unicode.IsLower(c) {
		return unicode.ToUpper(c)
	}
	return unicode.ToLower(c)
}

// NewDSNKey returns a random key for a DSN: 128 bits.
func NewDSNKey() string          { return encodeBase62(entity.RandomBytes(entity.FPSaltBytes), base62Length) }
func (d *DSN) ChangeCount() *int { return &d.Version }

// Restricts: any change may forbid reports.
func (d *DSN) Restricts(entity.Value) bool { return true }

// OnlyRestricts: nothing changed but the key.
func (d *DSN) OnlyRestricts(next entity.Value) bool {
	want, now := *d, next.(*DSN)
	want.UpdatedAt, want.Version = now.UpdatedAt, now.Version
	want.Sealed.Key, want.Hash, want.KeyRotatedBy = now.Sealed.Key, now.Hash, now.KeyRotatedBy
	return entity.SameJSON(&want, now)
}

func (d *DSN) EachSealed(f func(entity, field string, s *seal.Secret)) {
	f(d.ID, seal.FieldDSNKey, &d.Sealed.Key)
}

func (d *DSN) Validate() error {
	var errs []error
	for _, origin := range d.AllowedOrigins {
		if same, err := ParseOrigin(origin); err != nil || same != origin {
			errs = append(errs, fmt.Errorf("origins: %.100q is no origin", origin))
		}
	}
	if d.Platform != DSNBrowser && len(d.AllowedOrigins) > 0 {
		errs = append(errs, errors.New("only browsers have origins"))
	}
	return errors.Join(append(errs, require.Hash(d.Hash), require.Text("name", d.Name, 1, require.MaxName),
		require.OneOf("platform", d.Platform, DSNPlatforms...), require.Range("version", d.Version, 1, 1<<53),
		require.Range("origins", len(d.AllowedOrigins), 0, MaxOrigins),
		require.Range("quota", d.DailyQuota, 0, MaxDailyQuota))...)
}

// anySubdomain stands for one or more labels at the start of the host of an allowed origin.
const anySubdomain = "*."

var errOrigin = errors.New("must be an origin such as https://app.example.com or https://*.example.com, without a path")

// ParseOrigin returns an allowed origin as browsers write it: scheme, host in lower case, and the port unless it is the
// scheme's. The host may begin with *. for all subdomains.
func ParseOrigin(text string) (string, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	subdomains := strings.HasPrefix(rest, anySubdomain)
	rest = strings.TrimSuffix(strings.TrimPrefix(rest, anySubdomain), "/")
	scheme = strings.ToLower(scheme)
	if !ok || len(text) > maxOrigin || scheme != "https" && scheme != "http" || !isHostAndPort(rest) {
		return "", errOrigin
	}
	u, err := url.Parse(scheme + "://" + rest)
	if err != nil || u.Host != rest || u.Hostname() == "" {
		return "", errOrigin
	}
	host := strings.ToLower(u.Host)
	if port := u.Port(); scheme == "https" && port == "443" || scheme == "http" && port == "80" {
		host = strings.TrimSuffix(host, ":"+port)
	}
	host = strings.TrimSuffix(host, ":")
	if subdomains {
		host = anySubdomain + host
	}
	return scheme + "://" + host, nil
}

func isHostAndPort(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(c rune) bool {
		return c > '~' || !strings.ContainsRune(base62+"-._:[]", c)
	})
}

// AllowsOrigin reports whether a page of an origin may send reports. Browsers send the origin with each report; it is
// empty if the request does not name one.
func (d *DSN) AllowsOrigin(origin string) bool {
	if len(d.AllowedOrigins) == 0 {
		return true
	}
	for _, allowed := range d.AllowedOrigins {
		scheme, domain, subdomains := strings.Cut(allowed, "://"+anySubdomain)
		host, sameScheme := strings.CutPrefix(origin, scheme+"://")
		if origin == allowed || subdomains && sameScheme && strings.HasSuffix(host, "."+domain) {
			return true
		}
	}
	return false
}
