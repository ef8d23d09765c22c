package notify

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/sign"
)

// maxAnswer bounds how much of an answer is read so that its connection can be reused.
const maxAnswer = 64 << 10

// post sends one HTTP request; the status decides the result. The request is signed as Standard Webhooks define if
// the channel has a secret.
func (s *Sender) post(ctx context.Context, c Channel, m Message, content any) Result {
	body, err := encode(content)
	if err != nil {
		return Result{Error: event.CodeInternal, Message: err.Error()}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, bytes.NewReader(body))
	if err != nil {
		return Result{Error: event.CodeInternal, Message: "the URL of the channel is not valid; save it again"}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "EventRelay/"+s.version)
	if !c.Secret.IsZero() {
		now := s.deps.Now()
		req.Header.Set("webhook-id", m.ID)
		req.Header.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
		req.Header.Set("webhook-signature", sign.Sign([]sign.Secret{c.Secret}, m.ID, now, body))
	}
	resp, err := s.deps.Transport.RoundTrip(req)
	if err != nil {
		return resultOfError(err)
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer) // an error here does not change the result
	return resultOfStatus(resp.StatusCode)
}
