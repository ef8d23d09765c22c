package alert

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/notify"
)

const (
	// giveUp is how long a message is tried.
	giveUp = 24 * time.Hour
	// The pause after a try that failed doubles from the first to the longest.
	firstPause   = 10 * time.Second
	longestPause = time.Hour
	// maxHeralds bounds the messages that are on their way at once.
	maxHeralds = 8
	// lookEvery is how often messages are looked for that other nodes left, or whose next try has come.
	lookEvery = time.Second
)

// herald takes messages from the alerts to the channels. It goes over the alerts of the whole account: those that this
// node claimed, and those whose claim has run out.
type herald struct {
	cfg     Config
	deps    Deps
	metrics *metrics
	wake    chan struct{} // capacity 1

	mu   sync.Mutex                 // guards the rest
	busy map[string]bool            // alerts whose message is on its way
	took map[string]map[string]bool // by message: targets that took it, until the log says so
}

func newHerald(cfg Config, deps Deps, m *metrics) *herald {
	return &herald{cfg: cfg, deps: deps, metrics: m, wake: make(chan struct{}, 1), busy: map[string]bool{},
		took: map[string]map[string]bool{}}
}

// look asks for a look now.
func (h *herald) look() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// run sends until ctx ends, and then lets the tries that are under way come to their end: a message that was taken
// must not be sent again because nobody said so.
func (h *herald) run(ctx context.Context) error {
	var under errgroup.Group
	under.SetLimit(maxHeralds)
	defer func() { _ = under.Wait() }() // they return nil
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		for _, x := range h.due() {
			if !h.begin(x.ID) {
				continue
			}
			under.Go(func() error {
				newest := h.deps.Config.Alert(x.ID) // it may have been busy until a moment ago
				written := newest != nil && h.carry(context.WithoutCancel(ctx), newest)
				if h.end(x.ID); written {
					h.look() // the next message of the same alert may be due
				}
				return nil
			})
		}
		if h.digestIsDue() && h.begin(config.AlertMailBudget) {
			under.Go(func() error {
				h.digest(context.WithoutCancel(ctx))
				h.end(config.AlertMailBudget)
				return nil
			})
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		case <-h.wake:
		}
	}
}

// due are the alerts that have a message which is this node's to send now, those that are busy included.
func (h *herald) due() []*config.Alert {
	now, mails := h.deps.Now(), h.mailBudget()
	return h.deps.Config.Alerts(func(x *config.Alert) bool {
		_, ok := h.turn(x, mails, now)
		return ok
	})
}

// turn is the first message of an alert that this node may send now, to those targets that no message before it waits
// for: nobody hears of an end before the beginning, and a channel that is away holds up nobody else. Mail that waits
// for a digest is not sent here.
func (h *herald) turn(x *config.Alert, mails *config.AlertBudget, now time.Time) (config.AlertNotice, bool) {
	var before []string
	for _, n := range x.Notices {
		mail := mayMail(mails, n.ID, now)
		free := slices.DeleteFunc(slices.Clone(n.PendingTargets), func(to string) bool {
			return slices.Contains(before, to) ||
				isMail(to) && !mail
		})
		if len(free) > 0 && !now.Before(n.NextAt) && (n.LeaseNode == h.cfg.Node || now.After(n.LeaseUntil)) {
			n.PendingTargets = free
			return n, true
		}
		before = append(before, n.PendingTargets...)
	}
	return config.AlertNotice{}, false
}

// begin marks an alert as busy; false if it is already.
func (h *herald) begin(alert string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.busy[alert] {
		return false
	}
	h.busy[alert] = true
	return true
}

func (h *herald) end(alert string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.busy, alert)
}

// carry makes one try of the message of an alert whose turn it is, and writes what came of it, if it can.
func (h *herald) carry(ctx context.Context, x *config.Alert) (written bool) {
	n, ok := h.claim(ctx, x)
	if !ok {
		return false
	}
	if slices.ContainsFunc(n.PendingTargets, isMail) && !h.takeSlot(ctx, n.ID) {
		if n.PendingTargets = slices.DeleteFunc(slices.Clone(n.PendingTargets), isMail); len(n.PendingTargets) == 0 {
			return false // it waits for the digest
		}
	}
	channels, err := notify.OpenChannels(h.deps.Keyring, h.deps.Config.AlertSettings())
	if err != nil {
		h.deps.Log.LogAttrs(ctx, slog.LevelError, "open the channels of alerts", slog.Any("error", err))
	}
	h.send(ctx, n, channels, h.message(x, n), err == nil)
	return h.record(ctx, x.ID, n.ID)
}

// claim chooses the message whose turn it is and makes sure that no other node sends it while this one does.
func (h *herald) claim(ctx context.Context, x *config.Alert) (config.AlertNotice, bool) {
	mails := h.mailBudget()
	n, ok := h.turn(x, mails, h.deps.Now())
	if !ok || n.LeaseNode == h.cfg.Node && n.LeaseUntil.Sub(h.deps.Now()) > claim/2 {
		return n, ok
	}
	changed, err := h.deps.Config.ChangeAlert(ctx, x.ID, func(x *config.Alert) error {
		now := h.deps.Now()
		var ok bool
		if n, ok = h.turn(x, mails, now); !ok {
			return config.ErrAlertUnchanged // another node was first
		}
		i := slices.IndexFunc(x.Notices, func(is config.AlertNotice) bool { return is.ID == n.ID })
		x.Notices[i].LeaseNode, x.Notices[i].LeaseUntil = h.cfg.Node, now.Add(claim)
		return nil
	})
	if err != nil {
		h.deps.Log.LogAttrs(ctx, slog.LevelWarn, "claim the message of an alert", slog.String("alert", x.ID),
			slog.Any("error", err))
	}
	return n, err == nil && changed != nil
}

// send goes down the message's channels at once and notes which targets took it. Those that are no longer saved, or
// will never take it, count as if they had.
func (h *herald) send(ctx context.Context, n config.AlertNotice, channels []notify.SavedChannel, m notify.Message,
	opened bool) {
	if !opened {
		return
	}
	var all sync.WaitGroup
	waiting := slices.DeleteFunc(slices.Clone(n.PendingTargets), func(to string) bool { return h.hasTaken(n.ID, to) })
	var addresses []string
	for _, target := range waiting {
		if address, mail := strings.CutPrefix(target, mailTarget); mail {
			addresses = append(addresses, address)
			continue
		}
		i := slices.IndexFunc(channels, func(c notify.SavedChannel) bool { return string(c.Kind) == target && c.Enabled })
		if i < 0 {
			h.note(n.ID, target)
			continue
		}
		all.Go(func() {
			if r := h.try(ctx, channels[i].Channel, m); r.OK {
				h.note(n.ID, target)
			}
		})
	}
	h.mail(ctx, channels, addresses, m, n.ID)
	all.Wait()
}

// try makes one try.
func (h *herald) try(ctx context.Context, c notify.Channel, m notify.Message) notify.Result {
	r := h.deps.Sender.Send(ctx, c, m)
	result := "ok"
	if !r.OK {
		result = string(r.Error)
		h.deps.Log.LogAttrs(ctx, slog.LevelWarn, "a channel did not take an alert", slog.String("channel", string(c.Kind)),
			slog.String("target", c.Target()), slog.String("error", string(r.Error)), slog.String("message", r.Message))
	}
	h.metrics.messages.WithLabelValues(string(c.Kind), result).Inc()
	return r
}

func (h *herald) note(notice string, to ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.took[notice] == nil {
		h.took[notice] = map[string]bool{}
	}
	for _, t := range to {
		h.took[notice][t] = true
	}
}

func (h *herald) hasTaken(notice, to string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.took[notice][to]
}

// record takes the targets that have the message off it, and the message off its alert when none is left or its day
// is over. It is tried again with the next look: what was taken is remembered, and not sent again.
func (h *herald) record(ctx context.Context, alert, notice string) bool {
	_, err := h.deps.Config.ChangeAlert(ctx, alert, func(x *config.Alert) error {
		i := slices.IndexFunc(x.Notices, func(n config.AlertNotice) bool { return n.ID == notice })
		if i < 0 {
			return config.ErrAlertUnchanged
		}
		n, now := &x.Notices[i], h.deps.Now().UTC()
		n.PendingTargets = h.left(n, now)
		n.NextAt = now.Add(min(firstPause<<min(n.Tries, 20), longestPause))
		n.Tries++
		n.LeaseNode, n.LeaseUntil = h.cfg.Node, n.NextAt.Add(claim)
		if len(n.PendingTargets) == 0 {
			x.Notices = slices.Delete(x.Notices, i, i+1)
		}
		return nil
	})
	if err != nil {
		h.deps.Log.LogAttrs(ctx, slog.LevelWarn, "write what became of an alert's message", slog.String("alert", alert),
			slog.Any("error", err))
		return false
	}
	h.forgetTaken(notice)
	return true
}

// left are the targets of a message that have not taken it, none when its day is over.
func (h *herald) left(n *config.AlertNotice, now time.Time) []string {
	to := slices.DeleteFunc(slices.Clone(n.PendingTargets), func(to string) bool { return h.hasTaken(n.ID, to) })
	if len(to) > 0 && now.Sub(n.At) >= giveUp {
		h.metrics.dropped.Add(float64(len(to)))
		return nil
	}
	return to
}

func (h *herald) forgetTaken(notices ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, notice := range notices {
		delete(h.took, notice)
	}
}
