package demo

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"regexp"
	"time"

	"github.com/eventrelay/relay/features/demo/shop"
	"github.com/eventrelay/relay/pkg/wait"
)

// linkPattern finds the link in what relay dev prints.
var linkPattern = regexp.MustCompile(`http\S+/app/link/\S+`)

// watch shows the sample shop on a relay of its own until ctx ends, with a line every five seconds. program is this
// program's file.
func watch(ctx context.Context, program string, out io.Writer) error {
	fmt.Fprintln(out, "A sample shop on a relay of its own. relay demo --help lists demonstrations that count.")
	starting, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	w, err := newWorld(starting, program, out)
	if err != nil {
		return err
	}
	defer w.close()
	made, err := w.call(ctx, "POST", "/v1/endpoints", shop.Body(time.Now(), rand.Text()))
	if err != nil {
		return err
	}
	printed, err := os.ReadFile(w.log.Name())
	if err != nil {
		return err
	}
	w.say("Open %s, then %s/app/sample. Ctrl-C ends it and removes the relay.", linkPattern.Find(printed), w.url)
	for began := time.Now(); wait.For(ctx, 5*time.Second) == nil; {
		counted, err := w.call(ctx, "GET", "/v1/events/counts?endpoint_id="+made.Get("id").Str, nil)
		if err != nil {
			continue // ctx has ended, or the store is late
		}
		of := counted.Get("statuses")
		w.say("%3.0f s  %4d delivered  %3d retrying  %3d failed%s", time.Since(began).Seconds(), of.Get("delivered").Int(),
			of.Get("retrying").Int(), of.Get("failed").Int(), comment(time.Since(began), of.Get("failed").Int()))
	}
	return nil
}

// comment says what happens at that time.
func comment(age time.Duration, failed int64) string {
	switch {
	case age < shop.Works:
		return ""
	case age < shop.Works+shop.Broken:
		return "  the warehouse answers 503"
	case failed > 0:
		return "  the warehouse works again: press Recover"
	}
	return "  all has arrived"
}
