package dashboard

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

// Paths of the pages of domains.
const (
	domainsPath = "/app/domains"
	domainPath  = domainsPath + "/{domain}"
)

// domainData is a domain of the API.
type domainData struct {
	ID         string  `json:"id"`
	Hostname   string  `json:"hostname"`
	State      string  `json:"status"`
	Method     *string `json:"method"`
	Token      string  `json:"token"`
	DNSRecord  string  `json:"dns_record"`
	HTTPURL    string  `json:"http_url"`
	VerifiedAt string  `json:"verified_at"`
	CheckedAt  string  `json:"checked_at"`
	LastMethod *string `json:"last_method"`
	LastError  *string `json:"last_error"`
	Seen       *string `json:"seen"`
	Advice     *string `json:"advice"`
	ExpiresAt  string  `json:"expires_at"`
	CreatedAt  string  `json:"created_at"`
}

// Path is the page of the domain.
func (d *domainData) Path() string { return domainsPath + "/" + url.PathEscape(d.ID) }

// ScansPath is the list of its scans.
func (d *domainData) ScansPath() string {
	return scansPath + "?" + url.Values{"domain_id": {d.ID}}.Encode()
}

func (d *domainData) api() string { return "/v1/domains/" + url.PathEscape(d.ID) }

// Verified reports whether the host name is proven.
func (d *domainData) Verified() bool { return d.State == config.DomainVerified }

// Expired reports whether the proof is missing, or never came.
func (d *domainData) Expired() bool { return d.State == config.DomainExpired }

// Ended reports whether the domain was never proven in time, and can only be deleted.
func (d *domainData) Ended() bool { return d.Expired() && d.VerifiedAt == "" }

// RecordName and RecordValue are the parts of the TXT record.
func (d *domainData) RecordName() string { return firstWord(d.DNSRecord) }

// RecordValue is the text of the TXT record.
func (d *domainData) RecordValue() string {
	_, value, _ := strings.Cut(d.DNSRecord, " TXT ")
	return value
}

func firstWord(s string) string {
	word, _, _ := strings.Cut(s, " ")
	return word
}

// ByHTTP reports whether the last check asked the website.
func (d *domainData) ByHTTP() bool {
	return d.LastMethod != nil && *d.LastMethod == config.DomainByHTTP
}

// ProvenByHTTP reports whether the proof of a verified domain is the file on its website.
func (d *domainData) ProvenByHTTP() bool { return d.Method != nil && *d.Method == config.DomainByHTTP }

// ProvenBy names the proof of a verified domain.
func (d *domainData) ProvenBy() string {
	if d.ProvenByHTTP() {
		return "the file on the website"
	}
	return "the DNS record"
}

// domainsPage is the data of the list of domains.
type domainsPage struct {
	Domains []*domainData
	Form    *form
	Full    bool // there are as many as there may be
}

func listDomains(v *visit) error { return showDomains(v, newForm(url.Values{}, "")) }

func showDomains(v *visit, f *form) error {
	var list struct {
		Data []*domainData `json:"data"`
	}
	if err := v.get("/v1/domains", url.Values{"limit": {"50"}}, &list); err != nil {
		return err
	}
	return v.page("domains", domainsPage{list.Data, f, len(list.Data) >= config.MaxDomains})
}

// createDomain adds a domain and opens its page, which says how to prove it.
func createDomain(v *visit) error {
	f, err := v.form()
	if err != nil {
		return err
	}
	var d domainData
	err = v.send("POST", "/v1/domains", map[string]any{"hostname": strings.TrimSpace(f.Value("hostname"))}, f.Nonce, &d)
	if x, ok := badRequest(err); ok {
		v.status = f.setError(x)
		return showDomains(v, f)
	} else if err != nil {
		return err
	}
	return v.redirect(d.Path(), "Domain added")
}

// readDomain returns the domain in the path.
func readDomain(v *visit) (*domainData, error) {
	d := &domainData{}
	err := v.get("/v1/domains/"+v.vars["domain"], nil, d)
	if x, ok := errors.AsType[*apiError](err); ok && x.Status == http.StatusNotFound {
		return nil, web.Missing("There is no such domain.")
	}
	return d, err
}

// showDomain shows how to prove a domain, what the last check found, and its tripwires.
func showDomain(v *visit) error {
	d, err := readDomain(v)
	if err != nil {
		return err
	}
	return showDomainPage(v, d, newTripwireForm())
}

// verifyDomain looks for the proof and returns to the page, which says what was found.
func verifyDomain(v *visit) error {
	f, err := v.form()
	if err != nil {
		return err
	}
	d, err := readDomain(v)
	if err != nil {
		return err
	}
	body := map[string]any{"method": f.Value("method")}
	if err := v.send("POST", d.api()+"/verify", body, f.Nonce, d); err != nil {
		return err
	}
	if d.LastError == nil {
		return v.redirect(d.Path(), "The proof was found.")
	}
	return v.redirect(d.Path(), "No proof was found.")
}

func deleteDomain(v *visit) error {
	if _, err := v.form(); err != nil {
		return err
	}
	d, err := readDomain(v)
	if err != nil {
		return err
	}
	if err := v.send("DELETE", d.api(), nil, "", nil); err != nil {
		return err
	}
	return v.redirect(domainsPath, "Deleted.")
}
