// Package sqs delivers events as messages of a queue of Amazon SQS, or of a service with its API. A delivery has
// succeeded when the queue has the message.
package sqs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/minio/minio-go/v7/pkg/signer"

	"github.com/eventrelay/relay/dispatcher/destination"
	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

const (
	// maxMessage is the largest message of SQS, in bytes. A queue may have a smaller bound.
	maxMessage = 1 << 20
	// maxGroup is the longest name of a message group.
	maxGroup = 128
	// maxAnswer is how much of an answer is read.
	maxAnswer = 64 << 10
)

// Kind delivers to queues. Nothing outlives a target.
type Kind struct{ Deps }

// Deps are the dependencies of a Kind.
type Deps struct {
	Transport http.RoundTripper // the egress guard
	Keyring   *seal.Keyring
	Now       func() time.Time
}

// New makes a Kind.
func New(deps Deps) *Kind { return &Kind{deps} }

// target is an opened destination.
type target struct {
	destination.Opened
	kind     *Kind
	settings kinds.SQS
	address  string
	group    destination.Key
	names    destination.Names
}

// Open decrypts the settings.
func (k *Kind) Open(e *config.Endpoint, d *config.Destination) (destination.Target, error) {
	opened, err := destination.Open(k.Keyring, e, d)
	if err != nil {
		return nil, err
	}
	all, err := d.Settings.Open(k.Keyring, d.ID)
	if err != nil {
		return nil, err
	}
	group, err := destination.ParseKey(all.SQS.Group)
	return &target{Opened: opened, kind: k, settings: *all.SQS, address: d.URL, group: group}, err
}

// message is the request SendMessage.
type message struct {
	QueueURL string `json:"QueueUrl"`
	Body     string `json:"MessageBody"`
	Group    string `json:"MessageGroupId,omitempty"`
	Dedup    string `json:"MessageDeduplicationId,omitempty"`
}

// Send sends one message.
func (t *target) Send(ctx context.Context, m destination.Message) destination.Result {
	attempt := m.Attempt
	attempt.URL, attempt.Method = t.address, http.MethodPost
	header := m.EventHeader(&t.Opened)
	attempt.RequestHeader = t.names.Recorded(header, t.Header)
	body := bytes.TrimSpace(destination.Line(m, header))
	err := error(tooLarge(len(body)))
	if len(body) <= maxMessage {
		var messageID string
		messageID, err = t.send(ctx, m, message{QueueURL: t.settings.QueueURL, Body: string(body),
			Group: t.groupOf(m, header), Dedup: t.dedupOf(m)})
		attempt.ResponseHeader = event.LinesOf([]event.Field{{Name: "Sqs-Message-Id", Value: messageID}})
	}
	attempt.Duration = t.kind.Now().Sub(attempt.StartedAt)
	if err != nil {
		attempt.ResponseHeader = ""
		return destination.Failed(attempt, err, t.Timeout)
	}
	return destination.Result{Lane: lane.Succeeded}
}

func tooLarge(size int) error {
	return destination.Faultf(event.CodeTooLarge, "the message has %d bytes, more than the queue takes", size)
}

// groupOf returns the group of the message, empty for none. A value that is no name of a group is hashed.
func (t *target) groupOf(m destination.Message, header http.Header) string {
	group := t.group.Of(m, header)
	if group == "" && t.settings.FIFO() {
		return m.Work.Event.ID.Text(id.Event)
	}
	if len(group) > maxGroup || strings.ContainsFunc(group, func(r rune) bool { return r <= ' ' || r > '~' }) {
		sum := sha256.Sum256([]byte(group))
		return hex.EncodeToString(sum[:])
	}
	return group
}

// dedupOf names the delivery for a FIFO queue: of its attempts within five minutes the queue keeps one.
func (t *target) dedupOf(m destination.Message) string {
	if !t.settings.FIFO() {
		return ""
	}
	return strings.TrimSuffix(id.DeliveryOf(m.Work.Event.ID, m.Work.Dest)+"-"+m.Work.Run, "-")
}

// send makes the request and returns the id of the message.
func (t *target) send(ctx context.Context, m destination.Message, x message) (messageID string, err error) {
	limited, cancel := context.WithTimeout(egress.WithDestination(ctx, m.Work.Dest), t.Timeout)
	defer cancel()
	text := web.Encode(x)
	req, err := http.NewRequestWithContext(limited, http.MethodPost, kinds.OriginOf(x.QueueURL)+"/", bytes.NewReader(text))
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	req.Header.Set("X-Amz-Content-Sha256", hex.EncodeToString(sum[:]))
	req.Header.Set("Content-Type", "application/x-amz-json-1.0")
	req.Header.Set("X-Amz-Target", "AmazonSQS.SendMessage")
	req = signer.SignV4WithServiceType(*req, t.settings.AccessKey, string(t.settings.SecretKey), "", t.settings.Region,
		"sqs")
	resp, err := t.kind.Transport.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	read, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return "", err
	}
	var answer struct {
		ID      string `json:"MessageId"`
		Type    string `json:"__type"`
		Message string `json:"message"`
	}
	_ = json.Unmarshal(read, &answer) // a proxy may answer in its own words: the status decides
	if resp.StatusCode == http.StatusOK && answer.ID != "" {
		return answer.ID, nil
	}
	return "", t.explain(resp.StatusCode, answer.Type[strings.LastIndexByte(answer.Type, '#')+1:], answer.Message, x)
}

// explain returns the error of an answer, which names what a person can change.
func (t *target) explain(status int, name, text string, x message) error {
	queue := x.QueueURL[strings.LastIndexByte(x.QueueURL, '/')+1:]
	switch {
	case name == "QueueDoesNotExist", name == "AWS.SimpleQueueService.NonExistentQueue":
		return destination.Faultf(event.CodeNotFound, "queue %s not found in %s", queue, t.settings.Region)
	case strings.Contains(text, "shorter than"), status == http.StatusRequestEntityTooLarge:
		return tooLarge(len(x.Body))
	case name == "InvalidClientTokenId", name == "UnrecognizedClientException", name == "SignatureDoesNotMatch",
		name == "InvalidSignatureException", name == "InvalidSecurity":
		return destination.Faultf(event.CodeAccessDenied, "the queue refused the access key: %s", name)
	case name == "AccessDeniedException", name == "AccessDenied", status == http.StatusForbidden:
		return destination.Faultf(event.CodeAccessDenied, "access denied for queue %s: the key needs sqs:SendMessage", queue)
	}
	return destination.Faultf(event.CodeRefused, "the queue answered %d %.60s", status, name)
}
