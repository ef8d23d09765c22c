// The official npm clients of the agent server, in both ages of the protocol: sdk and client by default begin with
// initialize; client with negotiation begins with server/discover and sends the revision with each request.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'

// connections are the ways to connect: connect(url, key) returns a client, and the text of every message that it has
// sent in its member sent. revision is what client and server agree on.
export const connections = [
  { name: 'sdk', revision: '2025-11-25', first: 'initialize', connect: connection(OldClient, OldTransport) },
  { name: 'client', revision: '2025-11-25', first: 'initialize', connect: connection(Client, StreamableHTTPClientTransport) },
  { name: 'client with negotiation', revision: '2026-07-28', first: 'server/discover',
    connect: connection(Client, StreamableHTTPClientTransport, { versionNegotiation: { mode: 'auto' } }) },
]

function connection(Client, Transport, options) {
  return async (url, key) => {
    const sent = []
    const client = new Client({ name: 'test', version: '1' }, { capabilities: { elicitation: {} }, ...options })
    const transport = new Transport(new URL(`${url}/mcp`), {
      requestInit: { headers: { Authorization: `Bearer ${key}` } },
      fetch: (address, init) => {
        if (init.body) sent.push({ revision: new Headers(init.headers).get('mcp-protocol-version'), ...JSON.parse(init.body) })
        return fetch(address, init)
      },
    })
    await client.connect(transport)
    return Object.assign(client, { sent })
  }
}

// any is a schema that accepts every result, for both clients.
export const any = {
  safeParse: (data) => ({ success: true, data }),
  '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value }) },
}
