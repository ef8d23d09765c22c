package limit

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// maxLeaseBatch bounds the requests in one exchange: some 800 commands, which take an embedded Redis 5 to 20 ms.
const maxLeaseBatch = 200

// runRound exchanges leases and breaker states with Redis once, and sweeps some shards.
func (l *Limiter) runRound(ctx context.Context) {
	now := l.elapsed()
	if l.client != nil {
		l.updateLeasePeriod(ctx, now)
		l.mirrorBreakers(ctx)
	}
	l.requestLeases(ctx)
	sweeps := 1
	if l.isIdle() {
		sweeps = idleSweeps
	}
	for range sweeps {
		l.buckets.sweep(l.elapsed(), l.leasePeriod.Load() == 0)
	}
}

// isIdle reports whether the next round would exchange nothing with Redis.
func (l *Limiter) isIdle() bool {
	return len(l.active) == 0 && l.breakerMirror.isEmpty() &&
		(l.client == nil || l.leasePeriod.Load() != 0 && !l.breaker.isOpen())
}

// untilNextRound returns how long Run waits after a round unless it is woken.
func (l *Limiter) untilNextRound() time.Duration {
	if l.isIdle() {
		return idleInterval
	}
	return roundInterval
}

// updateLeasePeriod starts a lease period when Redis answers, and ends it when the breaker is open. Between two periods
// each node limits for itself at the full rate.
func (l *Limiter) updateLeasePeriod(ctx context.Context, now time.Duration) {
	if l.breaker.isOpen() {
		l.leasePeriod.Store(0)
	}
	limitsAlone := l.leasePeriod.Load() == 0
	if limitsAlone {
		l.metrics.localSeconds.Add(max(0, now-l.periodUpdatedAt).Seconds())
	}
	l.periodUpdatedAt = now
	if !limitsAlone || !l.breaker.mayProbe(now) {
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
		l.log.Info("redis is available again")
	}
	l.lastPeriod++
	l.leasePeriod.Store(l.lastPeriod)
}

// setRedisClock measures the difference to Redis' clock. Windows are numbered by that clock, so that nodes with wrong
// clocks draw from the same windows.
func (l *Limiter) setRedisClock(clock time.Time, sent time.Duration) {
	l.redisAhead = time.Duration(clock.UnixNano()) - (sent+l.elapsed())/2
}

// requestLeases requests the leases that the active buckets need.
func (l *Limiter) requestLeases(ctx context.Context) {
	now, period := l.elapsed(), l.leasePeriod.Load()
	l.active = l.buckets.appendNewlyActive(l.active)
	kept, requests := l.active[:0], l.requests[:0]
	for _, b := range l.active {
		r, retired := b.nextRequest(now, now+l.redisAhead, period)
		if !retired {
			kept = append(kept, b)
		}
		if r.milliTokens > 0 || r.wantLevel || r.fullIn > 0 {
			requests = append(requests, r)
		}
	}
	clear(l.active[len(kept):])
	l.active, l.requests = kept, requests
	l.exchangeAll(ctx, requests)
	clear(requests)
}

// exchangeAll makes the exchanges for all requests; it stops after the first that fails.
func (l *Limiter) exchangeAll(ctx context.Context, requests []leaseRequest) {
	for len(requests) > 0 && l.leasePeriod.Load() != 0 {
		n := min(len(requests), maxLeaseBatch)
		l.exchangeLeases(ctx, requests[:n])
		requests = requests[n:]
	}
}

// leaseAnswer holds Redis' answers to one leaseRequest.
type leaseAnswer struct {
	total  *redis.IntCmd
	fullIn *redis.DurationCmd
}

// exchangeLeases makes one exchange for many buckets, and ends the lease period if it fails. It is one transaction
// (MULTI): a counter whose PEXPIRE was lost would stay for ever.
func (l *Limiter) exchangeLeases(ctx context.Context, requests []leaseRequest) {
	var clock *redis.TimeCmd
	answers := make([]leaseAnswer, len(requests))
	sent := l.elapsed()
	err := l.call(ctx, "lease", func(ctx context.Context) error {
		_, err := l.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
			clock = p.Time(ctx)
			for i, r := range requests {
				answers[i] = r.send(ctx, p)
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
	for i, r := range requests {
		if r.wantLevel {
			r.bucket.correctLevel(answers[i].fullIn.Val())
		}
		if r.milliTokens > 0 {
			l.metrics.countLease(r.milliTokens, r.bucket.addGranted(r, answers[i].total.Val()))
		}
	}
}

func (r leaseRequest) send(ctx context.Context, p redis.Pipeliner) (sent leaseAnswer) {
	prefix := "tb:" + r.bucket.key + ":"
	if r.wantLevel {
		sent.fullIn = p.PTTL(ctx, prefix+"full")
	}
	if r.milliTokens > 0 {
		key := prefix + strconv.FormatInt(r.window, 10)
		sent.total = p.IncrBy(ctx, key, r.milliTokens)
		p.PExpire(ctx, key, r.counterTTL)
	}
	if r.fullIn >= time.Millisecond {
		p.Set(ctx, prefix+"full", "", r.fullIn)
	}
	return sent
}

// reportLevels writes the levels of the active buckets to Redis for their next owners. Best effort.
func (l *Limiter) reportLevels(ctx context.Context) {
	now := l.elapsed()
	var requests []leaseRequest
	for _, b := range l.buckets.appendNewlyActive(l.active) {
		if r := b.finalRequest(now); r.fullIn > 0 {
			requests = append(requests, r)
		}
	}
	l.exchangeAll(ctx, requests)
}
