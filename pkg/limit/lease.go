package limit

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// maxLeaseBatch bounds one exchange: some 800 commands, 5 to 20 ms of an embedded Redis.
const maxLeaseBatch = 200

// runRound is one round of Run.
func (l *Limiter) runRound(ctx context.Context) {
	now := l.elapsed()
	if l.client != nil {
		l.updateLeasePeriod(ctx, now)
		l.mirrorBreakers(ctx)
	}
	l.requestLeases(ctx)
	l.buckets.sweep(l.elapsed(), l.leasePeriod.Load() == 0)
}

// updateLeasePeriod begins a period of leases when Redis answers, and ends it when the breaker is open. Between two
// periods each bucket limits for itself at the full rate.
func (l *Limiter) updateLeasePeriod(ctx context.Context, now time.Duration) {
	if l.breaker.isOpen() {
		l.leasePeriod.Store(0)
	}
	alone := l.leasePeriod.Load() == 0
	if alone {
		l.metrics.localSeconds.Add(max(0, now-l.contactedAt).Seconds())
	}
	l.contactedAt = now
	if !alone || !l.breaker.mayProbe(now) {
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
	l.setRedisClock(clock, sent)
	if l.breaker.close() {
		l.log.Info("redis is back")
	}
	l.lastPeriod++
	l.leasePeriod.Store(l.lastPeriod)
}

// setRedisClock compares Redis' clock with ours: windows are numbered by Redis' clock, so that nodes whose
// clocks differ, or step, draw from the same windows.
func (l *Limiter) setRedisClock(clock time.Time, sent time.Duration) {
	l.redisAhead = time.Duration(clock.UnixNano()) - (sent+l.elapsed())/2
}

// requestLeases asks for what the active buckets need.
func (l *Limiter) requestLeases(ctx context.Context) {
	now, period := l.elapsed(), l.leasePeriod.Load()
	l.active = l.buckets.appendNewlyActive(l.active)
	kept, asks := l.active[:0], l.requests[:0]
	for _, b := range l.active {
		a, retired := b.nextRequest(now, now+l.redisAhead, period)
		if !retired {
			kept = append(kept, b)
		}
		if a.milliTokens > 0 || a.wantLevel || a.fullIn > 0 {
			asks = append(asks, a)
		}
	}
	clear(l.active[len(kept):])
	l.active, l.requests = kept, asks
	l.exchangeAll(ctx, asks)
	clear(asks)
}

// exchangeAll stops at the first exchange that fails.
func (l *Limiter) exchangeAll(ctx context.Context, asks []leaseRequest) {
	for len(asks) > 0 && l.leasePeriod.Load() != 0 {
		n := min(len(asks), maxLeaseBatch)
		l.exchangeLeases(ctx, asks[:n])
		asks = asks[n:]
	}
}

// leaseAnswer is what Redis said to one ask.
type leaseAnswer struct {
	total  *redis.IntCmd
	fullIn *redis.DurationCmd
}

// exchangeLeases makes one exchange for many buckets, and ends the period of leases when it fails. It is
// one transaction: a counter without its life would stay for ever.
func (l *Limiter) exchangeLeases(ctx context.Context, asks []leaseRequest) {
	var clock *redis.TimeCmd
	answers := make([]leaseAnswer, len(asks))
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
		l.leasePeriod.Store(0)
		return
	}
	l.setRedisClock(clock.Val(), sent)
	for i, a := range asks {
		if a.wantLevel {
			a.bucket.correctLevel(answers[i].fullIn.Val())
		}
		if a.milliTokens > 0 {
			l.metrics.countLease(a.milliTokens, a.bucket.addGranted(a, answers[i].total.Val()))
		}
	}
}

func (a leaseRequest) send(ctx context.Context, p redis.Pipeliner) (sent leaseAnswer) {
	prefix := "tb:" + a.bucket.key + ":"
	if a.wantLevel {
		sent.fullIn = p.PTTL(ctx, prefix+"full")
	}
	if a.milliTokens > 0 {
		key := prefix + strconv.FormatInt(a.window, 10)
		sent.total = p.IncrBy(ctx, key, a.milliTokens)
		p.PExpire(ctx, key, a.counterTTL)
	}
	if a.fullIn >= time.Millisecond {
		p.Set(ctx, prefix+"full", "", a.fullIn)
	}
	return sent
}

// reportLevels tells Redis how full the buckets are, for whoever owns them next. Best effort.
func (l *Limiter) reportLevels(ctx context.Context) {
	now := l.elapsed()
	var asks []leaseRequest
	for _, b := range l.buckets.appendNewlyActive(l.active) {
		if a := b.finalRequest(now); a.fullIn > 0 {
			asks = append(asks, a)
		}
	}
	l.exchangeAll(ctx, asks)
}
