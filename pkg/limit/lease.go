package limit

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// leaseBatch bounds one exchange: some 800 commands, 5 to 20 ms of an embedded Redis.
const leaseBatch = 200

// step is one round of Run.
func (l *Limiter) step(ctx context.Context) {
	now := l.elapsed()
	if l.client != nil {
		l.contact(ctx, now)
		l.mirrorHeld(ctx)
	}
	l.lease(ctx)
	l.buckets.sweep(l.elapsed(), l.period.Load() == 0)
}

// contact begins a period of leases when Redis answers, and ends it when the breaker is open. Between two
// periods each bucket limits for itself at the full rate.
func (l *Limiter) contact(ctx context.Context, now time.Duration) {
	if l.breaker.isOpen() {
		l.period.Store(0)
	}
	alone := l.period.Load() == 0
	if alone {
		l.metrics.local.Add(max(0, now-l.looked).Seconds())
	}
	l.looked = now
	if !alone || !l.breaker.due(now) {
		return
	}
	sent := l.elapsed()
	var clock time.Time
	err := l.exchange(ctx, "probe", func(ctx context.Context) (err error) {
		clock, err = l.client.Time(ctx).Result()
		return err
	})
	if err != nil {
		return
	}
	l.setClock(clock, sent)
	if l.breaker.close() {
		l.log.Info("redis is back")
	}
	l.periods++
	l.period.Store(l.periods)
}

// setClock compares Redis' clock with ours: windows are numbered by Redis' clock, so that nodes whose
// clocks differ, or step, draw from the same windows.
func (l *Limiter) setClock(clock time.Time, sent time.Duration) {
	l.ahead = time.Duration(clock.UnixNano()) - (sent+l.elapsed())/2
}

// lease asks for what the active buckets need.
func (l *Limiter) lease(ctx context.Context) {
	now, period := l.elapsed(), l.period.Load()
	l.active = l.buckets.enlisted(l.active)
	kept, asks := l.active[:0], l.asks[:0]
	for _, b := range l.active {
		a, retired := b.plan(now, now+l.ahead, period)
		if !retired {
			kept = append(kept, b)
		}
		if a.milli > 0 || a.past || a.full > 0 {
			asks = append(asks, a)
		}
	}
	clear(l.active[len(kept):])
	l.active, l.asks = kept, asks
	l.exchangeAll(ctx, asks)
	clear(asks)
}

// exchangeAll stops at the first exchange that fails.
func (l *Limiter) exchangeAll(ctx context.Context, asks []ask) {
	for len(asks) > 0 && l.period.Load() != 0 {
		n := min(len(asks), leaseBatch)
		l.exchangeLeases(ctx, asks[:n])
		asks = asks[n:]
	}
}

// answer is what Redis said to one ask.
type answer struct {
	total *redis.IntCmd
	past  *redis.DurationCmd
}

// exchangeLeases makes one exchange for many buckets, and ends the period of leases when it fails. It is
// one transaction: a counter without its life would stay for ever.
func (l *Limiter) exchangeLeases(ctx context.Context, asks []ask) {
	var clock *redis.TimeCmd
	answers := make([]answer, len(asks))
	sent := l.elapsed()
	err := l.call(ctx, "lease", func(ctx context.Context) error {
		_, err := l.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
			clock = p.Time(ctx)
			for i, a := range asks {
				answers[i] = a.send(ctx, p)
			}
			return nil
		})
		return err
	})
	if err != nil {
		l.period.Store(0)
		return
	}
	l.setClock(clock.Val(), sent)
	for i, a := range asks {
		if a.past {
			a.bucket.correct(answers[i].past.Val())
		}
		if a.milli > 0 {
			l.metrics.leased(a.milli, a.bucket.grant(a, answers[i].total.Val()))
		}
	}
}

func (a ask) send(ctx context.Context, p redis.Pipeliner) (sent answer) {
	prefix := "tb:" + a.bucket.key + ":"
	if a.past {
		sent.past = p.PTTL(ctx, prefix+"full")
	}
	if a.milli > 0 {
		key := prefix + strconv.FormatInt(a.window, 10)
		sent.total = p.IncrBy(ctx, key, a.milli)
		p.PExpire(ctx, key, a.life)
	}
	if a.full >= time.Millisecond {
		p.Set(ctx, prefix+"full", "", a.full)
	}
	return sent
}

// leave tells Redis how full the buckets are, for whoever owns them next. Best effort.
func (l *Limiter) leave(ctx context.Context) {
	now := l.elapsed()
	var asks []ask
	for _, b := range l.buckets.enlisted(l.active) {
		if a := b.leave(now); a.full > 0 {
			asks = append(asks, a)
		}
	}
	l.exchangeAll(ctx, asks)
}
