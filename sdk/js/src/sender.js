// Collects reports and sends them, as docs/design/reports.md says. It never throws, and its timers keep no process alive.
import { randomId } from './dsn.js'

const firstDelay = 100 // ms
const mergeTime = 60_000
const maxReports = 50
const retryDelays = [1000, 5000, 25_000]
const maxThrottled = 5

// newSender returns a sender. transport(url, body) resolves to {status, retryAfter, text}; header() is what each batch begins
// with; maxBytes bounds a batch; outage(host, cause) is what is said of a relay that cannot be reached.
export function newSender({ transport, header, warn, maxBytes, outage }) {
  let target = null // {url, host, queueSize, flushInterval, beforeSend}
  const waiting = new Map() // reports by their key
  const sentAt = new Map() // when a report of a key was last sent, by the monotonic clock
  let dropped = {}
  let timer = null
  let due = Infinity
  let running = null // the batch that is being sent, as a promise
  let sending = null // and as a text
  let taken = [] // the reports of the batch that was taken last, as they were before beforeSend
  let flushing = 0
  let filtering = false // in beforeSend
  let wake = () => {} // ends the wait before the next try
  let cause // why the last try failed: an error, or a status of 5xx
  let quietUntil = 0 // no outage is said before

  const now = () => performance.now()
  const drop = (reason, n = 1) => { dropped[reason] = (dropped[reason] || 0) + n }

  function later(delay, f) {
    const t = setTimeout(f, delay)
    t.unref?.()
    return t
  }

  function schedule(delay) {
    if (!target || running || now() + delay >= due) return
    clearTimeout(timer)
    due = now() + delay
    timer = later(delay, send)
  }

  function add(report) {
    if (!target) return
    const key = JSON.stringify([report.type, report.rule, report.fp1, report.fp1 ? 0 : report.masked, report.where])
    const at = new Date().toISOString()
    const same = waiting.get(key)
    if (same) {
      same.count = Math.min(same.count + 1, 1_000_000)
      if (at > same.last_at) same.last_at = at // the clock may have been set back
      return
    }
    if (filtering && sentAt.has(key)) return // beforeSend would cause a report for each
    if (waiting.size >= target.queueSize) return drop('queue_full')
    const added = { ...report, count: 1, first_at: at, last_at: at }
    waiting.set(key, added)
    schedule(isDue(key) ? firstDelay : target.flushInterval)
    return added
  }

  const isDue = (key) => !(now() - sentAt.get(key) < mergeTime)

  // take removes a batch from what waits; null if nothing is due.
  function take() {
    const batch = { id: randomId(), ...header(), sent_at: new Date().toISOString(), reports: [] }
    if (Object.keys(dropped).length) batch.dropped = dropped
    let size = JSON.stringify(batch).length
    taken = []
    for (const [key, report] of [...waiting]) {
      if (!waiting.has(key)) continue // beforeSend has called init
      if (!flushing && !isDue(key)) continue
      const length = JSON.stringify(report).length + 1
      if (batch.reports.length === maxReports || size + length > maxBytes) break
      size += length
      waiting.delete(key)
      sentAt.delete(key)
      sentAt.set(key, now())
      filtering = true
      const kept = filter(report)
      filtering = false
      if (!kept) continue
      batch.reports.push(kept)
      taken.push(report)
    }
    for (const key of sentAt.keys()) {
      if (sentAt.size <= 1000 && !isDue(key)) break
      sentAt.delete(key)
    }
    if (!batch.reports.length && !batch.dropped) return null
    dropped = {}
    return batch
  }

  function filter(report) {
    try {
      const kept = target.beforeSend ? target.beforeSend(report) : report
      if (!kept || kept.rule) return kept
      throw new Error('no report')
    } catch (error) {
      warn('beforeSend has failed', error)
    }
  }

  function send() {
    due = Infinity
    if (!target || running || filtering) return // with filtering beforeSend has called flush: this batch is sent next
    const { url } = target
    const batch = take()
    if (!batch) {
      if (waiting.size) schedule(target.flushInterval)
      return
    }
    running = deliver(batch, url, taken).catch((error) => warn('beforeSend has failed', error)).then(() => {
      running = sending = null
      if (waiting.size) flushing ? send() : schedule(firstDelay)
    })
  }

  // heard records what became of a try. An outage is said once, from its second failure on, or from the first one if nothing
  // is tried after it.
  function heard({ status, error }, isLast) {
    const isOutage = cause || isLast
    cause = error || (status < 500 ? null : new Error(`status ${status}`))
    if (!cause) quietUntil = Math.min(quietUntil, now() + mergeTime)
    else if (isOutage && now() >= quietUntil) {
      quietUntil = Infinity
      warnOf(outage(target.host, cause), cause, true)
    }
  }

  const warnOf = (text, cause, again) => warn(text, new Error(text, { cause }), again)
  const warnOfRefusal = (why) => warnOf(`the relay refuses reports: ${why}`)

  // recordAccepted marks the reports of a batch that the relay has accepted, and throws if the answer is not from a relay.
  function recordAccepted({ rejected }, reports) {
    reports.forEach((report, i) => { report.accepted = !rejected.some((r) => r.index === i) })
    new Set(rejected.map((r) => r.reason)).forEach(warnOfRefusal)
  }

  async function deliver(batch, url, reports) {
    const body = sending = JSON.stringify(batch)
    for (let failures = 0, throttled = 0; target?.url === url;) {
      const answer = await transport(url, body).catch((error) => ({ error }))
      if (target?.url !== url) return
      heard(answer)
      const { status, retryAfter, text } = answer
      if (status >= 200 && status < 300) {
        try {
          return recordAccepted(JSON.parse(text), reports)
        } catch { /* another server has answered */ }
      }
      let delay
      if (status === 429 && ++throttled <= maxThrottled) {
        delay = Math.min(Math.max(Number(retryAfter) || 1, 1), 3600) * 1000
      } else if (cause && failures < retryDelays.length) {
        delay = retryDelays[failures++] * (0.8 + 0.4 * Math.random())
      } else {
        if (status === 401) target = null
        if (!cause) warnOfRefusal(`status ${status}`)
        drop('send_failed', batch.reports.reduce((n, r) => n + r.count, 0))
        return
      }
      await new Promise((resolve) => {
        wake = resolve
        later(delay, resolve)
      })
    }
  }

  // flush sends what waits and resolves to true when nothing is left, to false after a time in ms.
  async function flush(timeout = 2000) {
    const end = now() + timeout
    flushing++
    try {
      wake()
      send()
      if (filtering) await null // the batch runs then
      while (running && now() < end) {
        let t
        await Promise.race([running, new Promise((resolve) => { t = setTimeout(resolve, end - now()) })])
        clearTimeout(t)
      }
    } finally {
      flushing--
    }
    return !waiting.size && !running
  }

  return {
    add,
    drop,
    heard,
    flush,
    // test sends a report, and resolves to true if the relay has accepted it in the time of flush.
    async test(report, timeout) {
      const added = add(report)
      await flush(timeout)
      return !!added?.accepted
    },
    // wake sends what was dropped at the next interval, if nothing else is to be sent.
    wake: () => target && schedule(target.flushInterval),
    get idle() { return !waiting.size && !running },
    // start sends to another target from now on; null sends nothing.
    start(next) {
      if (next?.url !== target?.url) {
        waiting.clear()
        sentAt.clear()
        clearTimeout(timer)
        due = Infinity
        wake()
        cause = quietUntil = 0
      }
      target = next
    },
    // takeAll returns, for a process or page that ends, where reports go and batches as texts: at most so many of what
    // waits, and the one that is being sent, which counts once.
    takeAll(most) {
      const bodies = []
      flushing++
      for (let batch; target && bodies.length < most && (batch = take());) bodies.push(JSON.stringify(batch))
      flushing--
      if (target && sending) bodies.push(sending)
      return { url: target?.url, bodies }
    },
  }
}
