package wire

import (
	"github.com/eventrelay/relay/pkg/web"
)

// Domain is a host name that you own or claim to own.
type Domain struct {
	ID     string `json:"id" ref:"DomainId"`
	Object string `json:"object" const:"domain"`
	// The host name alone, such as `www.example.com`. It is stored in lower-case ASCII.
	Hostname string `json:"hostname" in:"required" minLength:"1" maxLength:"2048"`
	Status   string `json:"status" enum:"pending,verified,expired"`
	// The method that has verified the domain.
	Method *string `json:"method" enum:"dns,http"`
	// Proves the host name. It is no secret once it is published.
	Token string `json:"token"`
	// Name, type and value of the TXT record.
	DNSRecord string `json:"dns_record"`
	// URL of the file. Its content is the token alone, in at most 1 KiB.
	HTTPURL    string   `json:"http_url"`
	VerifiedAt web.Time `json:"verified_at" nullable:"true"`
	// When the proof was looked for last.
	CheckedAt web.Time `json:"checked_at" nullable:"true"`
	// Of the last check.
	LastMethod *string `json:"last_method" enum:"dns,http"`
	// Why the last check found no proof. `null` if it did.
	LastError *string `json:"last_error" enum:"not_found,mismatch,redirected,blocked,unreachable,tls"`
	// What was found instead, in at most 200 bytes. Secrets are masked.
	Seen *string `json:"seen"`
	// What to do about the last check.
	Advice *string `json:"advice"`
	// When the domain expires without a proof.
	ExpiresAt web.Time `json:"expires_at" nullable:"true"`
	Meta
}
