package alert

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// world is what the nodes of a random history share: the configuration log, the channels, and who received what.
type world struct {
	t      *testing.T
	rand   *rand.Rand
	keys   *seal.Keyring
	config *fakeConfig
	live   map[string]*worldNode

	mu      sync.Mutex           // guards the rest
	modes   map[notify.Kind]mode // of the channels
	notices []worldNotice        // in the order in which they were written
	got     map[string][]receipt // by notice and target
}

// worldNotice is a notice that was written; the alert's earlier ones must reach each target before it.
type worldNotice struct {
	name, alert string
	to          []string
}

// receipt is one message about a notice that a target received.
type receipt struct {
	node *worldNode
	at   time.Time
	ok   bool // the node was told so, and the configuration log took its records
}

// mode is how a channel behaves.
type mode int

const (
	answers mode = iota
	isSlow
	refuses
	hangs
	losesAnswers // receives a message, and the node waits for its answer in vain
	modes
)

// worldNode is one life of a node. It implements Configuration and Sender for the node: both may fail for it alone.
type worldNode struct {
	*fakeConfig
	*world
	name   string
	rig    *rig
	stop   func()       // it has stopped afterwards
	delay  atomic.Int64 // of the configuration log's answers
	dead   atomic.Bool  // killed
	isCut  atomic.Bool  // the configuration log takes no record of it
	failed []time.Time  // when it was killed, or cut off
}

func newWorld(t *testing.T, seed uint64) *world {
	k := testKeyring(t)
	return &world{t: t, rand: rand.New(rand.NewPCG(seed, 1)), keys: k, config: newFakeConfig(k),
		live: map[string]*worldNode{}, modes: map[notify.Kind]mode{}, got: map[string][]receipt{}}
}

// start starts a node of a name that has none.
func (w *world) start(name string, run func(context.Context, *rig)) {
	r := rigOn(w.t, name, w.keys, w.config, &fakeSender{})
	n := &worldNode{fakeConfig: w.config, world: w, name: name, rig: r}
	r.notifier.deps.Config, r.notifier.deps.Sender = n, n
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { run(ctx, r) })
	n.stop = func() {
		cancel()
		running.Wait()
	}
	w.live[name] = n
}

// end stops a node, or kills it: then nothing that it does later has an effect.
func (w *world) end(name string, kill bool) {
	n := w.live[name]
	delete(w.live, name)
	if kill {
		n.dead.Store(true)
		w.fail(n)
		go n.stop()
		return
	}
	n.stop()
}

func (w *world) fail(n *worldNode) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n.failed = append(n.failed, time.Now())
}

func (n *worldNode) ChangeAlert(ctx context.Context, id string, alter func(*alerting.Alert) error) (
	*alerting.Alert, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(time.Duration(n.delay.Load())):
	}
	if n.dead.Load() || n.isCut.Load() {
		return nil, config.ErrUnavailable
	}
	return n.fakeConfig.ChangeAlert(ctx, id, alter)
}

// noticeName finds the notices that a message is about: their names are their values.
var noticeName = regexp.MustCompile(`job rec_\d+: (n\d+)`)

func (n *worldNode) Send(ctx context.Context, c notify.Channel, m notify.Message) notify.Result {
	n.world.mu.Lock()
	mode := n.modes[c.Kind]
	n.world.mu.Unlock()
	wait := time.Duration(0)
	switch mode {
	case isSlow:
		wait = 9 * time.Second
	case hangs, losesAnswers:
		wait = notify.Timeout
	}
	if n.dead.Load() {
		return notify.Result{Error: event.CodeTimeout}
	}
	if mode == losesAnswers {
		n.receive(c, m, false)
	}
	select {
	case <-ctx.Done():
		mode = hangs
	case <-time.After(wait):
	}
	if mode > isSlow || n.dead.Load() {
		r := notify.Result{Error: event.CodeTimeout}
		if c.Kind == notify.Email {
			r.Undelivered = map[string]bool{}
			for _, to := range c.To {
				r.Undelivered[to] = true
			}
		}
		return r
	}
	n.receive(c, m, true)
	return notify.Result{OK: true}
}

func (n *worldNode) receive(c notify.Channel, m notify.Message, ok bool) {
	n.world.mu.Lock()
	defer n.world.mu.Unlock()
	to := []string{string(c.Kind)}
	if c.Kind == notify.Email {
		to = nil
		for _, address := range c.To {
			to = append(to, mailTarget+address)
		}
	}
	names := map[string]bool{}
	for _, found := range noticeName.FindAllStringSubmatch(m.Title+"\n"+m.Text, -1) {
		names[found[1]] = true
	}
	if len(names) == 0 {
		n.t.Errorf("a message about nothing: %+v", m)
	}
	for name := range names {
		for _, target := range to {
			n.got[name+" "+target] = append(n.got[name+" "+target], receipt{n, time.Now(), ok && !n.isCut.Load()})
		}
	}
}

// announce lets an alert fire, or resolve when it fires.
func (w *world) announce(alert int) {
	about := subject{other: fmt.Sprintf("rec_%d", alert)}
	name := fmt.Sprintf("n%d", len(w.notices))
	to := targets(w.config.AlertSettings(), alerting.EndpointAlerts{Enabled: true})
	w.notices = append(w.notices, worldNotice{name, about.other, to})
	r := rigOn(w.t, "writer", w.keys, w.config, &fakeSender{})
	_, err := w.config.ChangeAlert(w.t.Context(), alertID(recoveryEnded, about), func(x *alerting.Alert) error {
		f, change := evaluation{rule: recoveryEnded, result: bad, value: name}, fire
		if x.Firing {
			change = resolve
		}
		writeTransition(x, about, f, change, logPosition{}, time.Now())
		r.addNotice(x, f, change, to, time.Now())
		return nil
	})
	must.Do(w.t, err)
}

// step lets something happen to a channel, or to the log as one node sees it.
func (w *world) step() {
	name := w.pick()
	n := w.live[name]
	switch w.rand.IntN(4) {
	case 0, 1:
		kinds := []notify.Kind{notify.Email, notify.Slack, notify.Webhook}
		w.mu.Lock()
		w.modes[kinds[w.rand.IntN(len(kinds))]] = mode(w.rand.IntN(int(modes)))
		w.mu.Unlock()
	case 2:
		n.delay.Store(w.rand.Int64N(int64(4900 * time.Millisecond)))
	case 3:
		n.isCut.Store(!n.isCut.Load())
		w.fail(n)
	}
}

// pick returns the name of a node that runs.
func (w *world) pick() string {
	names := slices.Sorted(maps.Keys(w.live))
	return names[w.rand.IntN(len(names))]
}

// settle ends all faults, and gives the nodes time to send what waits.
func (w *world) settle() {
	w.mu.Lock()
	clear(w.modes)
	w.mu.Unlock()
	for _, n := range w.live {
		n.delay.Store(0)
		n.isCut.Store(false)
	}
	time.Sleep(4 * time.Hour)
	for _, name := range slices.Sorted(maps.Keys(w.live)) {
		w.end(name, false)
	}
	time.Sleep(time.Minute)
}

// check compares what the targets received with what was written: each notice at least once, in the order of its
// alert, and a second time only if the node that sent it could not know, or record, that it had arrived.
func (w *world) check() {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := map[string]time.Time{} // by alert and target: when the last notice was received first
	for _, n := range w.notices {
		for _, to := range n.to {
			got := w.got[n.name+" "+to]
			if len(got) == 0 {
				w.t.Errorf("%s of %s never reached %s", n.name, n.alert, to)
				continue
			}
			if last := before[n.alert+" "+to]; got[0].at.Before(last) {
				w.t.Errorf("%s of %s reached %s before the notice that precedes it", n.name, n.alert, to)
			}
			before[n.alert+" "+to] = got[0].at
			for i, again := range got[1:] {
				first := got[i]
				isHidden := func(at time.Time) bool { return !at.Before(first.at) && !at.After(again.at) }
				if first.ok && !slices.ContainsFunc(first.node.failed, isHidden) {
					w.t.Errorf("%s of %s reached %s from %s %v after it had from %s", n.name, n.alert, to, again.node.name,
						again.at.Sub(first.at), first.node.name)
				}
			}
		}
	}
	for _, x := range w.config.AlertsWithNotices(nil) {
		w.t.Errorf("left over: %+v", x.Notices)
	}
}

// Whatever happens to nodes, channels and the configuration log, each alert is announced to each target, in order, and
// twice only after a fault that hides the result of a send.
func TestEveryAlertIsAnnounced(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, seed)
				run := func(ctx context.Context, r *rig) { _ = r.notifier.run(ctx) }
				for _, name := range []string{"a", "b", "c"} {
					w.start(name, run)
				}
				alerts, pause := 4+w.rand.IntN(20), 2+w.rand.IntN(40)
				for range 150 {
					switch what := w.rand.IntN(20); {
					case what < 12:
						w.announce(w.rand.IntN(alerts))
					case what < 16:
						w.step()
					default:
						name := w.pick()
						w.end(name, what < 18)
						time.Sleep(time.Duration(w.rand.IntN(2)) * time.Duration(w.rand.IntN(60)) * time.Second)
						w.start(name, run)
					}
					time.Sleep(time.Duration(w.rand.Int64N(int64(pause) * int64(time.Second))))
				}
				w.settle()
				w.check()
			})
		})
	}
}

// A node that gives a notice its mail so slowly that its lease is nearly over does not begin to send it: another node
// takes the lease before the result is recorded.
func TestSlowRecordsEndTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		run := func(ctx context.Context, r *rig) { _ = r.notifier.run(ctx) }
		w.start("a", run)
		w.announce(0)
		time.Sleep(leaseTime/2 - time.Second/2)
		w.start("b", run)
		w.live["a"].delay.Store(int64(recordTimeout - time.Millisecond))
		w.mu.Lock()
		w.modes[notify.Email] = isSlow
		w.mu.Unlock()
		w.announce(1)
		w.live["a"].rig.notifier.wakeUp()
		time.Sleep(time.Minute)
		w.settle()
		w.check()
	})
}

// The API's document names every type of message that the webhook channel receives.
func TestDocumentNamesEveryMessageType(t *testing.T) {
	want := []string{"alert.test", unverifiedType, manyType, tripwireType,
		findingType + string(finding.Opened), findingType + string(finding.Reopened)}
	for r := range ruleCount {
		want = append(want, "alert."+r.messageType())
		if r.headline(true) != "" {
			want = append(want, "alert."+r.messageType()+resolvedSuffix)
		}
	}
	document := must.Get(os.ReadFile("../../api/openapi/webhooks.yaml"))(t)
	var got []string
	for _, line := range regexp.MustCompile(`(?m)^ +- (alert[.].+)$`).FindAllSubmatch(document, -1) {
		got = append(got, string(line[1]))
	}
	slices.Sort(want)
	slices.Sort(got)
	is.Equal(t, cmp.Diff(want, got), "", "-sent +in the document")
}
