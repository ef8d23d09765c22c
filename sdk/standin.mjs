// A proxy before a relay with the troubles that clients must get over, for the tests of sdk/go, sdk/ts and sdk/python:
// node standin.mjs http://127.0.0.1:8080 prints its address. Each trouble comes once; /overcome lists those after which
// the client asked again.
import http from 'node:http'

const relay = new URL(process.argv[2])
const asked = {} // how often there was a request for which a trouble is
const first = (trouble) => (asked[trouble] = (asked[trouble] ?? 0) + 1) === 1

const unavailable = JSON.stringify({ error: { type: 'unavailable', message: 'a trouble', request_id: 'req_standin' } })
const refuse = (response, status, headers = {}) => response.writeHead(status, headers).end(unavailable)

http.createServer(async (request, response) => {
  const chunks = []
  for await (const chunk of request) chunks.push(chunk)
  const { method, url, headers } = request
  if (url === '/overcome') {
    return response.end(Object.keys(asked).filter((of) => asked[of] > 1).sort().join('\n') + '\n')
  }
  if (url === '/v1/me' && first('429 to a read')) return refuse(response, 429, { 'retry-after': '1' })

  const forwarded = http.request(relay, { method, path: url, headers: { ...headers, host: relay.host }, agent: false })
  forwarded.on('error', () => response.destroy())
  response.on('close', () => forwarded.destroy())
  forwarded.on('response', (answer) => {
    // The relay has stored what was sent, and the client does not know.
    if (method === 'POST' && /events$/.test(url) && first('an answer is lost')) return response.destroy()
    if (/batch$/.test(url) && first('503 to a batch')) return refuse(response, 503)
    response.writeHead(answer.statusCode, answer.headers)
    if (!/stream$/.test(url) || !first('a stream is cut')) return answer.pipe(response)
    let passed = ''
    answer.on('data', (chunk) => { // cut in the middle of the third event
      const end = (passed += chunk).split('event: event').slice(0, 4).join('event: event').length
      response.write(chunk.subarray(0, Math.max(0, chunk.length - (Buffer.byteLength(passed) - end))))
      if (passed.split('event: event').length > 3) setTimeout(() => response.destroy(), 10)
    })
  })
  forwarded.end(Buffer.concat(chunks))
}).listen(0, '127.0.0.1', function () { console.log(`http://127.0.0.1:${this.address().port}`) })
process.stdin.on('end', () => process.exit()).resume() // it ends with the script that started it
