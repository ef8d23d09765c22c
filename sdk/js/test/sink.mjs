// A strict stand-in for the relay: it checks each batch against docs/design/reports.md and keeps it.
import assert from 'node:assert/strict'
import http from 'node:http'
import zlib from 'node:zlib'

const printable = /^[^\p{C}\p{Zl}\p{Zp}]*$/u
const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
const name = /^[A-Za-z0-9._@/+-]{1,64}$/

function members(object, allowed) {
  assert.equal(Object.prototype.toString.call(object), '[object Object]')
  for (const key of Object.keys(object)) assert.ok(allowed.includes(key), `member ${key}`)
}

const isText = (value, most) => typeof value === 'string' && value.length > 0 && value.length <= most &&
  value === value.trim() && printable.test(value)
const isCount = (value, most) => Number.isInteger(value) && value >= 1 && value <= most

function checkReport(report) {
  members(report, ['type', 'rule', 'masked', 'fp1', 'count', 'first_at', 'last_at', 'where'])
  assert.ok(['log', 'response', 'error'].includes(report.type), report.type)
  assert.match(report.rule, /^(custom:)?[a-z0-9-]{1,40}$/)
  assert.match(report.masked, /^[ -~]{1,80}$/)
  if ('fp1' in report) assert.match(report.fp1, /^[A-Za-z0-9_-]{43}$/)
  assert.ok(isCount(report.count, 1_000_000))
  assert.match(report.first_at, time)
  assert.match(report.last_at, time)
  const { where } = report
  if (report.type === 'response') {
    members(where, ['method', 'path', 'status', 'content_type'])
    if ('method' in where) assert.match(where.method, /^[A-Z]{1,20}$/)
    if ('path' in where) assert.ok(isText(where.path, 256) && !where.path.includes('?'), where.path)
    if ('status' in where) assert.ok(where.status >= 100 && where.status <= 599)
    if ('content_type' in where) assert.ok(isText(where.content_type, 100))
    return
  }
  members(where, ['logger', 'file', 'line', 'column', 'function'])
  if ('logger' in where) assert.match(where.logger, /^[A-Za-z0-9._-]{1,40}$/)
  if ('file' in where) assert.ok(isText(where.file, 256), where.file)
  for (const key of ['line', 'column']) if (key in where) assert.ok(isCount(where[key], 10_000_000))
  if ('function' in where) assert.ok(isText(where.function, 100), where.function)
}

export function checkBatch(batch) {
  members(batch, ['id', 'sdk', 'sent_at', 'environment', 'release', 'reports', 'dropped'])
  assert.match(batch.id, /^[0-9A-Za-z]{22}$/)
  members(batch.sdk, ['name', 'version'])
  assert.equal(batch.sdk.name, 'relay.javascript')
  assert.match(batch.sdk.version, /^[A-Za-z0-9._+-]{1,64}$/)
  assert.match(batch.sent_at, time)
  for (const key of ['environment', 'release']) if (key in batch) assert.match(batch[key], name)
  assert.ok(batch.reports.length <= 50)
  batch.reports.forEach(checkReport)
  if ('dropped' in batch) {
    members(batch.dropped, ['queue_full', 'sampled', 'send_failed', 'masking_failed'])
    for (const n of Object.values(batch.dropped)) assert.ok(isCount(n, Number.MAX_SAFE_INTEGER))
  }
}

export const publicKey = 'pk' + '1'.repeat(22) + '0'.repeat(20) + '1z'

// newSink starts a sink. answers are statuses of the next requests, or the text of a 202; after them it accepts all. It checks what it reads
// in stop().
export async function newSink(answers = []) {
  const sink = { batches: [], bodies: [], modes: [], requests: 0, faults: [], answers }
  sink.first = new Promise((resolve) => { sink.received = resolve })
  const server = http.createServer(async (req, res) => {
    sink.requests++
    const chunks = []
    for await (const chunk of req) chunks.push(chunk)
    const answer = sink.answers.shift() ?? 202
    if (answer === 'nothing') return
    if (answer === 'cut') return req.socket.destroy()
    try {
      assert.equal(req.method, 'POST')
      assert.equal(req.url, `/base/api/dsn_a1/reports?k=${publicKey}&v=1`)
      assert.match(req.headers['content-type'], /^text\/plain;charset=UTF-8$/i) // beacons have it in lower case
      let body = Buffer.concat(chunks)
      assert.ok(body.length <= 128 << 10)
      if (req.headers['content-encoding'] === 'gzip') body = zlib.gunzipSync(body)
      assert.ok(body.length <= 128 << 10)
      sink.bodies.push(body.toString())
      sink.modes.push(req.headers['sec-fetch-mode'])
      const batch = JSON.parse(body)
      checkBatch(batch)
      if (answer === 202) sink.batches.push(batch)
      sink.received()
    } catch (error) {
      sink.faults.push(error)
    }
    res.writeHead(typeof answer === 'string' ? 202 : answer, { 'Access-Control-Allow-Origin': '*', 'Access-Control-Expose-Headers': 'Retry-After',
      ...(answer === 429 && { 'Retry-After': '1' }) })
    res.end(typeof answer === 'string' ? answer : answer === 202 ? '{"accepted":0,"rejected":[]}' : '{}')
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  sink.dsn = `http://${publicKey}@127.0.0.1:${server.address().port}/base/dsn_a1`
  server.unref() // a test that fails does not stop it
  sink.origin = `http://127.0.0.1:${server.address().port}`
  // A page that is left sends the batch under way once more, as a beacon. It counts once, as in the relay: by its id.
  sink.reports = () => [...new Map(sink.batches.map((b) => [b.id, b])).values()].flatMap((b) => b.reports)
  sink.stop = () => {
    server.close()
    server.closeAllConnections()
    assert.deepEqual(sink.faults, [])
  }
  return sink
}
