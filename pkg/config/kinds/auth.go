package kinds

import (
	"cmp"
	"crypto/tls"
	"net"
	"net/url"
	"strings"

	"github.com/eventrelay/relay/pkg/config/seal"
)

// Types of authentication.
const (
	Basic  = "basic"
	OAuth2 = "oauth2_client_credentials"
	MTLS   = "mtls"
)

// Auth is how the requests of a webhook are authenticated. Members of other types than the chosen one are empty.
type Auth struct {
	Type string `json:"type" in:"" enum:"basic,oauth2_client_credentials,mtls" label:"Type" description:"basic: user name and password (RFC 7617). oauth2_client_credentials: an access token from token_url (RFC 6749, 4.4), kept until it expires and renewed once when the destination answers 401. mtls: a client certificate. Required."`

	Username string      `json:"username,omitempty" in:"null" maxLength:"255" label:"User name" description:"For basic. Without a colon." example:"relay"`
	Password seal.Secret `json:"password,omitempty" in:"null" maxLength:"1024" label:"Password" description:"For basic. Masked in responses; its mask means unchanged." example:"****4f2a"`

	TokenURL     string      `json:"token_url,omitempty" in:"null" maxLength:"2048" label:"Token URL" description:"For oauth2_client_credentials: the https URL of the token endpoint." example:"https://login.example.com/oauth2/token"`
	ClientID     string      `json:"client_id,omitempty" in:"null" maxLength:"512" label:"Client id" description:"For oauth2_client_credentials." example:"relay"`
	ClientSecret seal.Secret `json:"client_secret,omitempty" in:"null" maxLength:"2048" label:"Client secret" description:"For oauth2_client_credentials. Masked in responses; its mask means unchanged." example:"****4f2a"`
	ClientAuth   string      `json:"client_auth,omitempty" in:"null" enum:"header,body" label:"Client authentication" description:"For oauth2_client_credentials: whether id and secret are sent in the header Authorization or in the body. Default header."`
	Scope        string      `json:"scope,omitempty" in:"null" maxLength:"1024" label:"Scopes" description:"For oauth2_client_credentials: the scopes, with spaces between them." example:"events.write"`
	Audience     string      `json:"audience,omitempty" in:"null" maxLength:"1024" label:"Audience" description:"For oauth2_client_credentials: the parameter audience, if the token endpoint needs one." example:"https://api.example.com"`

	Certificate string      `json:"certificate,omitempty" in:"null" maxLength:"16384" label:"Certificate" description:"For mtls: the client certificate with its chain, in PEM form." example:"-----BEGIN CERTIFICATE-----…"`
	Key         seal.Secret `json:"key,omitempty" in:"null" maxLength:"16384" label:"Private key" description:"For mtls: the private key of the certificate, in PEM form. Masked in responses; its mask means unchanged." example:"****"`
}

func (a *Auth) trim() {
	next := Auth{Type: a.Type}
	switch a.Type {
	case Basic:
		next.Username, next.Password = a.Username, a.Password
	case OAuth2:
		next.TokenURL, next.ClientID, next.ClientSecret = a.TokenURL, a.ClientID, a.ClientSecret
		next.ClientAuth, next.Scope, next.Audience = cmp.Or(a.ClientAuth, "header"), a.Scope, a.Audience
	case MTLS:
		next.Certificate, next.Key = a.Certificate, a.Key
	}
	*a = next
}

func (a *Auth) origin() string { return OriginOf(a.TokenURL) }

// OriginOf returns scheme, host and port of a URL.
func OriginOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return text
	}
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

func (a *Auth) validate(c Checks) *Fault {
	if a.Type == "" {
		return &Fault{"type", "is required"}
	}
	type needed struct{ name, text string }
	for _, m := range map[string][]needed{
		Basic:  {{"username", a.Username}, {"password", string(a.Password)}},
		OAuth2: {{"token_url", a.TokenURL}, {"client_id", a.ClientID}, {"client_secret", string(a.ClientSecret)}},
		MTLS:   {{"certificate", a.Certificate}, {"key", string(a.Key)}},
	}[a.Type] {
		if m.text == "" {
			return &Fault{m.name, "is required for " + a.Type}
		}
	}
	switch a.Type {
	case Basic:
		if strings.Contains(a.Username, ":") {
			return &Fault{"username", "must not contain a colon"}
		}
	case OAuth2:
		if err := c.URL(a.TokenURL); err != nil {
			return &Fault{"token_url", err.Error()}
		}
	case MTLS:
		if _, err := a.KeyPair(); c.Opened && err != nil {
			return &Fault{"key", "does not fit to the certificate, or one of them is not in PEM form"}
		}
	}
	return nil
}

// KeyPair returns the client certificate of opened settings.
func (a *Auth) KeyPair() (tls.Certificate, error) {
	return tls.X509KeyPair([]byte(a.Certificate), []byte(a.Key))
}
