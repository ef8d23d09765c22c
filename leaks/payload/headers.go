package payload

import (
	"bytes"
	"regexp"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/secrets"
)

// signatureName matches the names of headers that sign the request.
var signatureName = regexp.MustCompile(`(?i)sign|hmac|digest|nonce`)

// carriesCredentials reports whether a header is there to carry a credential or a signature: that is no leak.
func carriesCredentials(name string) bool {
	return config.CredentialHeader(name) || signatureName.MatchString(name)
}

// scanHeaders scans the values of all headers in one text, a line for each. Only where a secret is, the name of the
// header is looked at.
func (x *scan) scanHeaders() {
	for _, f := range x.e.Header {
		x.headers = append(append(x.headers, f.Value...), '\n')
	}
	x.tokens.Scan(x.headers, func(m secrets.Match) bool {
		name := x.headerAt(m.Start)
		return carriesCredentials(name) || x.add(match{Match: m, in: x.headers, part: inHeader, name: name})
	})
}

// scanQuery scans the query string as it was sent. A secret is at the parameter that it stands in.
func (x *scan) scanQuery() {
	if x.e.Query == "" {
		return
	}
	query := []byte(x.e.Query)
	x.tokens.Scan(query, func(m secrets.Match) bool {
		name := query[bytes.LastIndexByte(query[:m.Start], '&')+1 : m.Start]
		if i := bytes.IndexByte(name, '='); i >= 0 {
			name = name[:i]
		}
		return x.add(match{Match: m, in: query, part: inQuery, name: string(name)})
	})
}

// headerAt returns the name of the header whose value has that byte of the text.
func (x *scan) headerAt(offset int) string {
	for _, f := range x.e.Header {
		if offset <= len(f.Value) {
			return f.Name
		}
		offset -= len(f.Value) + 1
	}
	return ""
}
