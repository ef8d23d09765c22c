package model

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/frame"
)

// Attempt is an attempt at a delivery as the pages show it.
type Attempt struct {
	wire.Attempt
	Name string `json:"-"` // of the destination, where attempts of several are listed
	Open bool   `json:"-"` // it is shown with its request and response
	// SameAs is the number of the attempt before it, whose request headers it has but for those in Changed; 0: there is
	// none, or most headers differ.
	SameAs  int               `json:"-"`
	Changed map[string]string `json:"-"`
	// Curl is a command that makes the request again, for the newest attempt of a delivery; may be empty.
	Curl string `json:"-"`
}

// CompareAttempts finds what the request headers of each attempt have in common with those of the one before, and opens
// the newest if it has failed.
func CompareAttempts(all []*Attempt) {
	for i, a := range all {
		if i == 0 {
			continue
		}
		before := all[i-1]
		changed, alike := map[string]string{}, len(before.Request.Headers) == len(a.Request.Headers)
		for name, value := range a.Request.Headers {
			was, known := before.Request.Headers[name]
			if alike = alike && known; was != value {
				changed[name] = value
			}
		}
		if alike && 2*len(changed) < len(a.Request.Headers) {
			a.SameAs, a.Changed = before.AttemptNumber, changed
		}
	}
	if n := len(all); n > 0 {
		all[n-1].Open = !all[n-1].OK()
	}
}

// Took is the duration of the request.
func (a *Attempt) Took() string {
	if a.DurationMS < 1 {
		return "<\u00a01\u00a0ms"
	}
	return frame.Number(a.DurationMS) + "\u00a0ms"
}

// OK reports whether the destination accepted the event.
func (a *Attempt) OK() bool { return a.Status == "succeeded" }

// Result is the outcome in some words: 503 Service Unavailable, or the code of the error.
func (a *Attempt) Result() string {
	if a.ResponseStatus != nil {
		return strings.TrimSpace(strconv.Itoa(*a.ResponseStatus) + " " + http.StatusText(*a.ResponseStatus))
	}
	if a.ErrorCode != nil {
		return string(*a.ErrorCode)
	}
	return a.Status
}

// Clock is the time of the start within its day.
func (a *Attempt) Clock() string { return time.Time(a.StartedAt).UTC().Format("15:04:05.000") }

// ResponseBody is the beginning of the body of the response.
func (a *Attempt) ResponseBody() string {
	body := a.Response.Body
	if a.Response.BodyEncoding == "base64" {
		body = "(" + strconv.Itoa(base64.StdEncoding.DecodedLen(len(body))) + " bytes that are not text)"
	}
	if a.Response.Truncated && body != "" {
		body += "\n… (cut)"
	}
	return body
}
