package drain

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha1" // Vercel's signatures are HMAC-SHA1
	"encoding/hex"
	"encoding/json"
	"hash"
	"mime"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/web"
)

// Headers of the platforms. Sources: Vercel, "Drains Security"; Heroku, "Log Drains" and the documentation of Logplex's
// HTTP drains; AWS, "HTTP endpoint delivery request and response specifications" of Data Firehose.
const (
	vercelSignature   = "X-Vercel-Signature" // hex of the HMAC-SHA1 of the raw body
	vercelVerify      = "X-Vercel-Verify"
	herokuFrame       = "Logplex-Frame-Id" // equal when a frame is sent again
	herokuFrameOld    = "X-Logplex-Frame-Id"
	herokuContent     = "application/logplex-1"
	herokuContentOld  = "application/x-logplex-1"
	firehoseRequest   = "X-Amz-Firehose-Request-Id" // equal when a request is sent again
	firehoseAccessKey = "X-Amz-Firehose-Access-Key"
)

const (
	// maxAccessKey bounds the header with Firehose's access key, as AWS does.
	maxAccessKey = 4096
	// maxDelivery bounds the id of a delivery; a longer one is ignored.
	maxDelivery = 200
)

// request is a request to a known drain.
type request struct {
	to *leak.Drain
	// detected is the platform that the request comes from; platform is the one whose rules hold: that of the drain, or
	// the detected one if the drain's is auto.
	detected, platform string
	delivery           string // id that the platform gives its request, equal when it is sent again; empty = none
	signingSecret      string // empty = the platform need not sign
	signature          hash.Hash
	origins            origins
}

// newRequest recognises the platform of a request from its headers.
func newRequest(r *http.Request, to *leak.Drain, signingSecret string) *request {
	x := &request{to: to, signingSecret: signingSecret}
	switch content, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); {
	case r.Header.Get(firehoseRequest) != "":
		x.detect(leak.PlatformFirehose)
		x.delivery = r.Header.Get(firehoseRequest)
	case content == herokuContent || content == herokuContentOld || frameID(r) != "":
		x.detect(leak.PlatformHeroku)
		x.delivery = frameID(r)
	case r.Header.Get(vercelSignature) != "":
		x.detect(leak.PlatformVercel)
	default:
		x.detect(leak.PlatformGeneric)
	}
	if len(x.delivery) > maxDelivery {
		x.delivery = ""
	}
	if signingSecret != "" {
		x.signature = hmac.New(sha1.New, []byte(signingSecret))
	}
	return x
}

func frameID(r *http.Request) string {
	return cmp.Or(r.Header.Get(herokuFrame), r.Header.Get(herokuFrameOld))
}

// detect sets the platform that the request comes from.
func (x *request) detect(platform string) {
	x.detected = platform
	if x.platform = x.to.Platform; x.platform == leak.PlatformAuto {
		x.platform = platform
	}
}

// logpushNames are members of the objects in Cloudflare's most used data sets; the first is what it uploads to try a
// destination. Source: Cloudflare, "Enable HTTP destination" and the lists of its data sets.
var logpushNames = []string{`{"content":"tests"}`, `"RayID":`, `"EdgeStartTimestamp":`, `"EventTimestampMs":`,
	`"ClientRequestHost":`, `"ColoCode":`, `"ActorEmail":`}

// detectLogpush recognises Cloudflare Logpush, which has no header of its own, by the first bytes of a gzip body.
func (x *request) detectLogpush(head string) {
	if x.detected != leak.PlatformGeneric || !strings.HasPrefix(head, "{") {
		return
	}
	first, _, _ := strings.Cut(head, "\n")
	for _, name := range logpushNames {
		if strings.Contains(first, name) {
			x.detect(leak.PlatformCloudflare)
			return
		}
	}
}

// checkSigned refuses a request whose header cannot be a signature, before its body is read.
func (x *request) checkSigned(r *http.Request) error {
	if x.signingSecret != "" && r.Header.Get(vercelSignature) == "" {
		return badSignature("this drain takes requests signed by Vercel only, and this one has no " + vercelSignature)
	}
	return nil
}

// checkSignature compares the signature with that of the body, which is complete.
func (x *request) checkSignature(r *http.Request) error {
	if x.signature == nil {
		return nil
	}
	given, _ := hex.DecodeString(r.Header.Get(vercelSignature)) // what is no hex differs
	if !hmac.Equal(given, x.signature.Sum(nil)) {
		return badSignature("the signature is not that of this body with the drain's signing secret; paste Vercel's " +
			"signature secret into the drain again")
	}
	return nil
}

func badSignature(message string) error {
	return &web.Error{Status: http.StatusForbidden, Type: web.InsufficientScope, Message: message}
}

// answer accepts a request in the way that its platform expects.
func (x *request) answer(w http.ResponseWriter, now time.Time, got received) {
	switch {
	case x.platform == leak.PlatformHeroku:
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(http.StatusOK)
	case x.platform == leak.PlatformFirehose: // anything but 200 with its own id is a failure
		web.WriteJSON(w, http.StatusOK, firehoseAnswer{RequestID: x.delivery, Timestamp: now.UnixMilli()})
	case x.platform == leak.PlatformGeneric && !got.Paused:
		web.WriteJSON(w, http.StatusAccepted, got)
	default:
		web.WriteJSON(w, http.StatusOK, got)
	}
}

// refuse returns the error for a request's platform. Logplex drops a frame that is answered with 4xx, and sends it
// again after a 5xx.
func (x *request) refuse(err error) error {
	if e := web.FromError(err); x.platform == leak.PlatformHeroku && e.Status == http.StatusTooManyRequests {
		again := *e
		again.Status, again.Type = http.StatusServiceUnavailable, web.Unavailable
		return &again
	}
	return err
}

// firehoseAnswer is what Firehose reads of an answer.
type firehoseAnswer struct {
	RequestID string `json:"requestId"`
	Timestamp int64  `json:"timestamp"` // Unix milliseconds
	Error     string `json:"errorMessage,omitempty"`
}

// respond writes an error response: Firehose shows its customer only an error of its own form.
func (d *Drain) respond(w http.ResponseWriter, r *http.Request, e *web.Error) {
	id := r.Header.Get(firehoseRequest)
	if id == "" {
		web.WriteError(w, r, nil, e)
		return
	}
	web.WriteJSON(w, e.Status, firehoseAnswer{RequestID: id, Timestamp: d.deps.Now().UnixMilli(), Error: e.Message})
}

// credentials returns the id and the token of a request: from its path, or from its path and a header.
func credentials(r *http.Request) (id, token string) {
	id, token, inPath := strings.Cut(strings.TrimPrefix(r.URL.Path, PathPrefix), "/")
	if inPath {
		return id, token
	}
	if key := r.Header.Get(firehoseAccessKey); key != "" {
		return id, accessKey(key)
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return id, ""
	}
	return id, strings.TrimSpace(token)
}

// accessKey returns the token in Firehose's header: the text, or the member api_key if it is a secret of AWS Secrets
// Manager.
func accessKey(header string) string {
	if len(header) > maxAccessKey {
		return ""
	}
	var secret struct {
		Key string `json:"api_key"`
	}
	// encoding/json would replace each byte that is not UTF-8 by three, beyond the bound.
	if utf8.ValidString(header) && json.Unmarshal([]byte(header), &secret) == nil && secret.Key != "" {
		return secret.Key
	}
	return header
}
