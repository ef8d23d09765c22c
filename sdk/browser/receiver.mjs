// An application that receives deliveries: it answers 204, and 500 below /down.
import { once } from 'node:events'
import { createServer } from 'node:http'

// startReceiver returns { url, stop }.
export async function startReceiver() {
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      if (request.url.startsWith('/down')) {
        response.writeHead(500, { 'Content-Type': 'text/plain' }).end('<img src=x onerror="window.hurt = 1"> is down')
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
  return { url: `http://127.0.0.1:${server.address().port}`, stop }
}
