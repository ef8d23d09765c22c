// A website on loopback with its own name server and certificate, for tests of leak scans.
import { execFile } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'

const name = 'shop.example.com'
const [addressRecord, textRecord] = [1, 16]

// startWebsite serves shop.example.com. pages are its answers by path, texts the TXT records by name, pause the
// milliseconds before each answer that is not found; all may be changed. env is what a relay needs to reach it.
export async function startWebsite() {
  const directory = await mkdtemp(join(tmpdir(), 'website-'))
  const [key, cert] = ['key.pem', 'cert.pem'].map((file) => join(directory, file))
  await promisify(execFile)('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1',
    '-nodes', '-days', '2', '-subj', `/CN=${name}`, '-addext', `subjectAltName=DNS:${name}`, '-keyout', key, '-out', cert])
  const pages = new Map()
  const texts = new Map()
  const paths = []
  const server = createServer({ key: await readFile(key), cert: await readFile(cert) }, async (request, response) => {
    paths.push(request.url)
    const page = pages.get(request.url)
    if (page === undefined) await delay(website.pause)
    response.writeHead(page === undefined ? 404 : 200).end(page ?? 'not found')
  }).listen(0, '127.0.0.1')
  const resolver = createSocket('udp4', (question, sender) => resolver.send(answer(question, texts), sender.port, sender.address))
  resolver.bind(0, '127.0.0.1')
  await Promise.all([once(server, 'listening'), once(resolver, 'listening')])
  const stop = async () => {
    server.closeAllConnections()
    await Promise.all([new Promise((done) => server.close(done)), new Promise((done) => resolver.close(done))])
    await rm(directory, { recursive: true, force: true })
  }
  const env = { RELAY_DNS_SERVER: `127.0.0.1:${resolver.address().port}`, RELAY_EGRESS_CA_FILE: cert }
  const website = { host: `${name}:${server.address().port}`, pages, texts, paths, pause: 0, env, stop }
  return website
}

// answer is the reply of the name server to one question (RFC 1035, 4.1).
function answer(question, texts) {
  const labels = []
  let end = 12
  for (; question[end] > 0; end += question[end] + 1) labels.push(question.toString('latin1', end + 1, end + 1 + question[end]))
  const asked = labels.join('.').toLowerCase()
  const type = question.readUInt16BE(end + 1)
  const records = []
  if (type === addressRecord && asked === name) records.push(Buffer.from([127, 0, 0, 1]))
  if (type === textRecord) {
    for (const text of texts.get(asked) ?? []) records.push(Buffer.concat([Buffer.from([text.length]), Buffer.from(text)]))
  }
  const known = asked === name || texts.has(asked)
  const header = Buffer.from(question.subarray(0, 12))
  header.writeUInt16BE(known ? 0x8180 : 0x8183, 2) // a name that is not known does not exist
  header.writeUInt16BE(records.length, 6)
  header.writeUInt32BE(0, 8)
  const body = records.map((data) => {
    const start = Buffer.alloc(12)
    start.writeUInt16BE(0xc00c, 0) // the name of the question
    start.writeUInt16BE(type, 2)
    start.writeUInt16BE(1, 4)
    start.writeUInt16BE(data.length, 10)
    return Buffer.concat([start, data])
  })
  return Buffer.concat([header, question.subarray(12, end + 5), ...body])
}
