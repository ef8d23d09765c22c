// An application that receives deliveries: it answers 204, below /json with JSON, below /down 500, below /mend 500
// until it is mended, and below /broken with what is no HTTP.
import { once } from 'node:events'
import { createServer } from 'node:http'

// A text of others that would run if a page inserted it as HTML. It has no space, so that a page breaks it anywhere or
// becomes too wide.
export const hostile = '</script><img/src="x"onerror="window.hurt=1">'

// startReceiver returns { url, mend, stop }.
export async function startReceiver() {
  let mended = false
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      if (request.url.startsWith('/down') || (request.url.startsWith('/mend') && !mended)) {
        response.writeHead(500, { 'Content-Type': 'text/plain', 'X-Reason': hostile }).end(`${hostile} is down`)
      } else if (request.url.startsWith('/broken')) {
        response.socket.end(`${hostile}\r\n\r\n`)
      } else if (request.url.startsWith('/json')) {
        response.writeHead(200, { 'Content-Type': 'application/json' }).end('{"ok":true,"id":"a"}')
      } else {
        response.writeHead(204).end()
      }
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const stop = async () => {
    server.close()
    server.closeAllConnections()
    await once(server, 'close')
  }
  return { url: `http://127.0.0.1:${server.address().port}`, mend: () => { mended = true }, stop }
}
