// A local HTTP server for the tests of the tools.
import { once } from 'node:events'
import { createServer } from 'node:http'

// startServer returns a server with { url, stop }. With a port it listens there again.
export async function startServer(handler, port = 0) {
  const server = createServer({ maxHeaderSize: 1 << 20 }, handler)
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  const stop = async () => {
    server.close()
    server.closeAllConnections()
    await once(server, 'close')
  }
  return { url: `http://127.0.0.1:${server.address().port}`, port: server.address().port, stop }
}

// readBody returns the bytes of a request.
export async function readBody(request) {
  const chunks = []
  for await (const chunk of request) chunks.push(chunk)
  return Buffer.concat(chunks)
}
