// Package demo shows the promises of the relay on a throw-away one: relay demo NAME starts this program as relay dev in
// a directory of its own, sends events to it, receives its deliveries, breaks something, and counts. A demonstration
// returns an error if its promise did not hold.
package demo

import (
	"context"
	"fmt"
	"io"
	"time"
)

// Demo is one demonstration.
type Demo struct {
	Name, Promise string
	show          func(ctx context.Context, w *world) error
}

// All are the demonstrations, in the order of the help.
var All = []Demo{
	{"crash", "what was acknowledged arrives, although the relay is killed under load", crash},
	{"neighbour", "beside 100 destinations that hang, another one gets its deliveries within 3 s", neighbour},
	{"recovery", "what failed is sent again: five first, the rest after your approval", recovery},
	{"signature", "a rejected signature comes with its cause", signature},
	{"forward", "a laptop that slept gets what it missed, in order, once", forward},
	{"rate", "a destination gets no more than its rate", rate},
	{"order", "the events of a key arrive in their order, through failures and a kill", order},
	{"reconcile", "what Stripe and GitHub could not deliver is fetched, once", reconcile},
	{"leak", "a key in a log is found, and shown masked", leak},
}

// maxTime bounds one demonstration. On an idle machine the longest takes ten seconds.
const maxTime = 2 * time.Minute

// Run runs a demonstration and prints what happens. program is this program's file. With keep the relay runs on until
// ctx ends, so that the printed commands can be tried.
func (d Demo) Run(ctx context.Context, program string, keep bool, out io.Writer) error {
	began := time.Now()
	fmt.Fprintf(out, "%s: %s.\n", d.Name, d.Promise)
	bounded, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	w, err := newWorld(bounded, program, out)
	if err != nil {
		return err
	}
	defer w.close()
	if err = d.show(bounded, w); err != nil {
		return fmt.Errorf("the promise did not hold: %w; the log of the relay ends with\n%s", err, w.logEnd())
	}
	w.say("The promise held, in %.1f s.", time.Since(began).Seconds())
	if !keep {
		w.say("relay demo --keep %s leaves the relay running, to look at the result.", d.Name)
		return nil
	}
	w.say("The relay runs at %s until Ctrl-C. Look at it:", w.url)
	w.say("  KEY=%s; %s", w.key, w.look)
	<-ctx.Done()
	return nil
}
