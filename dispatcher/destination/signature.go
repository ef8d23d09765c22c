package destination

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // receivers that verify older schemes need it
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/sign"
)

// Names of the headers with id, timestamp and signature: of Standard Webhooks, as the relay's own, and of Svix.
var (
	standardNames = [3]string{headerWebhookID, headerWebhookTimestamp, headerWebhookSignature}
	ownNames      = [3]string{prefixRelay + headerWebhookID, prefixRelay + headerWebhookTimestamp,
		prefixRelay + headerWebhookSignature}
	svixNames = [3]string{prefixSvix + "Id", prefixSvix + "Timestamp", prefixSvix + "Signature"}
)

const prefixSvix = "Svix-"

// sign calls set with the headers of all schemes of the destination. names are those of Standard Webhooks: its id and
// timestamp are there also if only templates sign, since receivers recognise repeats by the id.
func (o *Opened) sign(set func(name, value string), id string, now time.Time, content Content, names ...[3]string) {
	secrets, timestamp := o.SigningSecrets(now), strconv.FormatInt(now.Unix(), 10)
	standard, signature := len(o.Schemes) == 0, ""
	for _, x := range o.Schemes {
		if standard = standard || x.Type != kinds.Template; x.Type == kinds.Svix {
			names = append(names, svixNames)
		}
	}
	if standard {
		signature = sign.Sign(secrets, id, now, content.Body)
	}
	for _, of := range names {
		set(of[0], id)
		set(of[1], timestamp)
		if standard {
			set(of[2], signature)
		}
	}
	for _, x := range o.Schemes {
		if x.Type == kinds.Template {
			values := map[string][]byte{"id": []byte(id), "timestamp": []byte(timestamp), "body": content.Body,
				"url": []byte(o.urlWith(content.Path))}
			if all := signatures(x, secrets, values); len(all) > 0 {
				set(x.Header, headerValue(x, all, values))
			}
		}
	}
}

// urlWith is the URL of the destination, with the path of an attempt.
func (o *Opened) urlWith(path string) string {
	if u, err := url.Parse(o.URL); err == nil && path != "" {
		return WithPath(u, path).String()
	}
	return o.URL
}

// WithPath returns a URL with an escaped path at the end of its own; empty: the URL itself.
func WithPath(u *url.URL, path string) *url.URL {
	if path == "" {
		return u
	}
	with := *u
	with.RawPath = strings.TrimSuffix(u.EscapedPath(), "/") + path
	with.Path, _ = url.PathUnescape(with.RawPath) // both parts are valid
	return &with
}

// hashes are the hashes of templates.
var hashes = map[string]func() hash.Hash{"sha256": sha256.New, "sha1": sha1.New, "sha512": sha512.New}

// signatures returns the signature by the scheme's own secret, or those by the destination's, newest first. An Ed25519
// key of the destination is none for an HMAC.
func signatures(x kinds.SigningScheme, secrets []sign.Secret, values map[string][]byte) (all []string) {
	keys := []string{string(x.Secret)}
	if x.Secret == "" {
		keys = nil
		for _, s := range secrets {
			if s.Algorithm() == sign.HMAC {
				keys = append(keys, s.Reveal())
			}
		}
	}
	encode := hex.EncodeToString
	if x.Encoding == "base64" {
		encode = base64.StdEncoding.EncodeToString
	}
	for _, key := range keys {
		mac := hmac.New(hashes[x.Algorithm], []byte(key))
		kinds.Expand(mac, x.SignedContent, values)
		all = append(all, encode(mac.Sum(nil)))
	}
	return all
}

// headerValue returns the value of a template's header. Of a value in parts, with commas between them, the one with the
// signature is repeated for each; any other has the first alone.
func headerValue(x kinds.SigningScheme, signatures []string, values map[string][]byte) string {
	values["signatures"] = []byte(strings.Join(signatures, ","))
	parts := strings.Split(x.Value, ",")
	if len(parts) == 1 {
		signatures = signatures[:1]
	}
	var all []string
	for _, part := range parts {
		for _, signature := range signatures {
			values["signature"] = []byte(signature)
			var b bytes.Buffer
			kinds.Expand(&b, part, values)
			if all = append(all, b.String()); !strings.Contains(part, "{signature}") {
				break
			}
		}
	}
	return strings.Join(all, ",")
}

// setsSignature reports whether a scheme sets a header, so that a received one of that name is not sent: a receiver
// could take it for the relay's. read is its variableName.
func (o *Opened) setsSignature(read string) bool {
	return slices.ContainsFunc(o.Schemes, func(x kinds.SigningScheme) bool {
		return x.Type == kinds.Template && variableName(x.Header) == read ||
			x.Type == kinds.Svix && strings.HasPrefix(read, prefixSvix)
	})
}
