// A service for the tests of the forwarder: one endpoint, its event stream and its events, as the HTTP API has them.
import { startServer } from '../shared/server.mjs'

export const endpoint = 'ep_test'
export const key = 'rly_live_test'

// Service keeps events and serves them. `answer` may answer a request in its place: it returns true if it did.
export class Service {
  events = []
  streams = new Set()
  requests = []
  answer = () => false
  // written is called before an event is written to a stream.
  written = () => {}

  async start() {
    this.server = await startServer((request, response) => this.serve(request, response), this.server?.port)
    this.url = this.server.url
  }

  // kill cuts all connections, as a process that is killed does.
  async kill() {
    this.streams.clear()
    await this.server.stop()
  }

  // accept stores an event and writes it to all streams.
  accept({ headers = [], body = '', path = '/', method = 'POST', ...row }) {
    const n = this.events.length
    const at = new Date(Date.now()).toISOString()
    const event = { id: `evt_${String(n).padStart(6, '0')}`, received_at: at, type: null, method, path, headers,
      body: Buffer.from(body), size: body.length, truncated: false, ...row }
    this.events.push(event)
    for (const stream of this.streams) this.write(stream, n)
    return event.id
  }

  write(stream, n) {
    const event = this.events[n]
    if (event.status === 'rejected' || event.reason === 'duplicate' || this.written(n)) return
    const data = JSON.stringify({ ...event, body: event.truncated ? '' : event.body.toString('base64') })
    stream.write(`id: ${n + 1}\nevent: event\ndata: ${data}\n\n`)
  }

  // end writes the event `end` to all streams and closes them.
  end(reason) {
    for (const stream of this.streams) stream.end(`event: end\ndata: {"reason":"${reason}"}\n\n`)
    this.streams.clear()
  }

  serve(request, response) {
    const { pathname, searchParams } = new URL(request.url, 'http://service')
    this.requests.push(pathname)
    if (this.answer(request, response, pathname)) return
    if (request.headers.authorization !== `Bearer ${key}`) return reply(response, 401, { error: { type: 'invalid_api_key' } })
    const [, resource, id, sub] = /^\/v1\/(endpoints|events)(?:\/(\w+))?(?:\/(\w+))?$/.exec(pathname) ?? []
    if (resource === 'endpoints' && id === endpoint && sub === 'stream') return this.stream(request, response)
    if (resource === 'endpoints' && id === endpoint) return reply(response, 200, { id, name: 'Payments' })
    if (resource === 'events' && !id) return this.list(searchParams, response)
    const event = this.events.find((x) => x.id === id)
    if (resource !== 'events' || !event) return reply(response, 404, { error: { type: 'not_found' } })
    reply(response, 200, { ...event, headers: undefined, headers_raw: event.headers,
      body: event.body.toString('base64'), body_encoding: 'base64' })
  }

  stream(request, response) {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const from = Number(request.headers['last-event-id'] ?? this.events.length)
    response.write(`id: ${from}\nevent: ready\ndata: {"endpoint_id":"${endpoint}"}\n\n`)
    this.streams.add(response)
    response.on('close', () => this.streams.delete(response))
    for (let n = from; n < this.events.length; n++) this.write(response, n)
  }

  // list has two events a page, newest first.
  list(query, response) {
    const rows = this.events.filter((x) => x.received_at >= query.get('since')).reverse()
    const from = Number(query.get('cursor') ?? 0)
    const data = rows.slice(from, from + 2).map(({ id, received_at, status, reason, payload_erased_at }) => (
      { id, received_at, status, reason, payload_erased_at }))
    reply(response, 200, { data, ...(rows.length > from + 2 && { next_cursor: String(from + 2) }) })
  }
}

export function reply(response, status, value) {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
}
