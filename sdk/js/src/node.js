// The SDK in Node.js: what is written to the standard streams, sent by HTTP servers, and thrown.
import { createHmac } from 'node:crypto'
import http from 'node:http'
import https from 'node:https'
import { createRequire } from 'node:module'
import path from 'node:path'
import util from 'node:util'
import { MessageChannel, receiveMessageOnPort, Worker } from 'node:worker_threads'
import zlib from 'node:zlib'
import { fileURLToPath } from 'node:url'
import { newCore } from './core.js'
import { find, findBinary, maskBinary, maskText } from './lines.js'
import { callersOf, framesOf, isBundle, placeOf } from './stack.js'

const shared = Symbol.for('@eventrelay/sdk')
const sendTimeout = 10_000
const gzipAbove = 32_000
const longestAnswer = 1 << 16 // in characters

// encode returns the headers and bytes of a batch.
function encode(body) {
  const isLong = body.length > gzipAbove
  const data = isLong ? zlib.gzipSync(body) : Buffer.from(body)
  const headers = { 'content-type': 'text/plain;charset=UTF-8', 'content-length': data.length }
  if (isLong) headers['content-encoding'] = 'gzip'
  return { headers, data }
}

let asked = Infinity // when the request that runs began
let failure = null // of the last request: {status} or {error}

// transport sends a batch, and remembers what became of it for sayUnsent.
async function transport(url, body) {
  asked = performance.now()
  const answer = await post(url, body).catch((error) => ({ error }))
  asked = Infinity
  failure = answer.status < 500 ? null : answer
  return answer
}

// outage says why no report arrives and what becomes of them.
function outage(host, { code, message }) {
  const why = (typeof code === 'string' && code) || message.replace(/\bpk\w{44}/g, 'pk***')
  return `cannot reach ${host} (${why}): up to ${core.options.queueSize} reports wait in memory; each is tried 4 times, ` +
    'and is lost then or when the process ends'
}

// sayUnsent says that the relay cannot be reached, when flush or the process ends with reports unsent.
function sayUnsent() {
  try {
    const seconds = Math.floor((performance.now() - asked) / 1000)
    const trouble = failure || (seconds > 0 && { error: new Error(`no answer for ${seconds} s`) })
    if (trouble && !core.sender.idle) core.sender.heard(trouble, true)
  } catch { /* a copy of another version does the work */ }
}

// post sends a batch. Its socket keeps no process alive.
function post(url, body) {
  return new Promise((resolve, reject) => {
    const { headers, data } = encode(body)
    const options = { method: 'POST', agent: false, timeout: sendTimeout, headers }
    const request = (url.startsWith('https:') ? https : http).request(url, options, (response) => {
      let text = ''
      response.on('error', reject).setEncoding('utf8').on('data', (part) => { if (text.length < longestAnswer) text += part })
      response.on('end', () => resolve({ status: response.statusCode, retryAfter: response.headers['retry-after'], text }))
    })
    const timer = setTimeout(() => request.destroy(new Error(`no answer within ${sendTimeout / 1000} s`)), sendTimeout)
    timer.unref()
    request.on('socket', (socket) => socket.unref())
    request.on('error', reject).on('close', () => clearTimeout(timer))
    request.end(data)
  })
}

const lastTime = 2000 // ms
const lastSender = `
  const { url, parts, done, port } = require('node:worker_threads').workerData
  const { request } = require(url.startsWith('https:') ? 'node:https' : 'node:http')
  const send = ({ headers, data }) => new Promise((resolve) => {
    request(url, { method: 'POST', headers }, (r) => r.resume().on('close', () => resolve({ status: r.statusCode })))
      .on('error', ({ code, message }) => resolve({ code, message })).end(data)
  })
  parts.reduce((before, part) => before.then(() => send(part)), Promise.resolve()).then((answer) => {
    port.postMessage(answer)
    Atomics.store(done, 0, 1)
    Atomics.notify(done, 0)
  })`

// sendNow sends what waits from a thread of its own, while this one, which dies, waits for it. It returns what became of
// it, as transport does.
function sendNow() {
  const { url, bodies } = core.sender.takeAll(Infinity)
  if (!bodies.length) return
  const done = new Int32Array(new SharedArrayBuffer(4))
  const { port1, port2 } = new MessageChannel()
  const workerData = { url, parts: bodies.map(encode), done, port: port2 }
  // Without the flags and environment of the process, with which it would load the SDK, or the application.
  const worker = new Worker(lastSender, { eval: true, execArgv: [], env: {}, workerData, transferList: [port2] })
  worker.on('error', () => {}).unref()
  Atomics.wait(done, 0, 0, lastTime)
  const { status, code, message } = receiveMessageOnPort(port1)?.message ??
    { message: `no answer within ${lastTime / 1000} s` }
  port1.close()
  return { status, ...(!status && { error: Object.assign(new Error(message || code), { code }) }) }
}

// Methods of loggers: of the console, and of pino, winston and the like, also if their own names were shortened.
const consoleCall = /^\s*at (?:Object\.)?console\.(\w+) \(/
const loggerCall = /(?:\.| \[as )(?:trace|debug|verbose|http|info|log|warn|error|fatal)\]? \(/

// whereOf returns the logger and the place. In a bundle nothing but the names of its methods tells a logger from the
// application: the place is where the outermost one was called.
function whereOf(logger, error, entry) {
  const frames = framesOf(error, entry)
  const level = frames.map((line) => consoleCall.exec(line)?.[1]).filter(Boolean).pop()
  const from = isBundle && !error && !level ? frames.findLastIndex((line) => loggerCall.test(line)) + 1 : 0
  const toPath = (file) => path.relative('', core.mask(file.startsWith('file:') ? fileURLToPath(file) : file))
  return { logger: level ? `console.${level}` : logger, ...placeOf(frames.slice(from), toPath) }
}

// print writes a line. A closed stderr emits an error, which would end the application if nothing listened for it.
function print(text) {
  const { stderr } = process
  const ignore = () => {}
  stderr.on('error', ignore)
  stderr.write(text + '\n', () => setImmediate(() => stderr.off('error', ignore)))
}

function newNodeCore() {
  return newCore({
    transport,
    outage,
    maxBytes: 128 << 10,
    warn: print,
    whereOf,
    hmac: (key, bytes) => createHmac('sha256', key).update(bytes).digest(),
    inspect: (value) => util.inspect(value, { depth: 5, maxStringLength: 1 << 20 }),
  })
}

// Of several copies of the SDK in one process (ESM and CJS, jest's realms) the first one does the work.
const core = globalThis[shared] || process.stdout.write[shared] || newNodeCore()
globalThis[shared] = core
core.undo ||= []
core.checks ||= new Set() // promises: those of responses that run

// replaceMethod puts a function in the place of a method, until close.
function replaceMethod(object, key, replacement) {
  const own = Object.hasOwn(object, key)
  const original = object[key]
  object[key] = replacement(original)
  object[key][shared] = core
  const wrapper = object[key]
  core.undo.push(() => {
    if (object[key] !== wrapper) return // wrapped again by others: ours passes everything on
    if (own) object[key] = original
    else delete object[key]
  })
}

// maxTail is how much of the text before a write is remembered, in characters, if that did not end a line.
const maxTail = 4096

// withTail returns a function that masks a text, of a secret that began in the text before it what is left. Its first
// part is written. tail.text is the end of what was written before, of the line that goes on.
function withTail(mask, tail) {
  return (scanner, text) => {
    const before = tail.text
    if (before === '' && text.charCodeAt(text.length - 1) === 10) return mask(scanner, text)
    tail.text = text.endsWith('\n') ? '' : (before + text).slice(-maxTail)
    if (before === '') return mask(scanner, text)
    const crossing = find(scanner, before + text).find((m) => m.start < before.length && m.end > before.length)
    if (!crossing) return mask(scanner, text)
    const left = mask(scanner, text.slice(crossing.end - before.length))
    return { text: '***' + left.text, found: [crossing, ...left.found] }
  }
}

// patchStream masks what is written to a stream, also with end. Others may have replaced its methods since.
function patchStream(stream, logger) {
  if (stream.write[shared]) return
  const isTestChild = logger === 'stdout' && process.env.NODE_TEST_CONTEXT === 'child-v8'
  const tail = { text: '' }
  const [maskedText, maskedBytes] = [withTail(maskText, tail), withTail(maskBinary, tail)]
  // clean returns a chunk with masks: itself if nothing was found, a string or a buffer otherwise.
  const clean = (chunk, encoding, entry) => {
    if (typeof chunk === 'string' && (typeof encoding !== 'string' || plain.test(encoding))) {
      return core.clean(chunk, logger, maskedText, entry)
    }
    const binary = binaryOf(chunk, encoding)
    if (binary === null) return chunk // the stream refuses it
    const masked = core.clean(binary, logger, maskedBytes, entry)
    return masked === binary ? chunk : Buffer.from(masked, 'latin1')
  }
  for (const key of ['write', 'end']) {
    if (!stream[key] || stream[key][shared]) continue // what an application puts in the place of a stream may have no end
    replaceMethod(stream, key, (original) => function wrapper(chunk, encoding, callback) {
      if (this !== stream || !core.options.stdout || (isTestChild && isFrame(chunk))) return original.apply(this, arguments)
      const masked = clean(chunk, encoding, wrapper)
      if (masked === chunk) return original.apply(this, arguments)
      return typeof encoding === 'function' ? original.call(this, masked, encoding)
        : original.call(this, masked, typeof masked === 'string' ? encoding : undefined, callback)
    })
  }
}

// isFrame tells whether a child of node --test writes a result for its parent: two bytes of node:v8, the length of the rest
// in four bytes, the rest. With a mask in it, which is shorter, the parent would wait for more forever.
function isFrame(chunk) {
  if (!(chunk instanceof Uint8Array) || chunk[0] !== 0xff || chunk.length < 6) return false
  return new DataView(chunk.buffer, chunk.byteOffset).getUint32(2) === chunk.length - 6
}

// Encodings whose strings are text. Others stand for bytes.
const plain = /^(utf-?8|utf-?16le|ucs-?2|latin1|binary|ascii)$/i

// binaryOf returns the bytes of a chunk, one character for each, null if it has none.
function binaryOf(chunk, encoding) {
  try {
    if (typeof chunk === 'string') return Buffer.from(chunk, encoding).toString('latin1')
    return ArrayBuffer.isView(chunk) ? Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength).toString('latin1') : null
  } catch {
    return null
  }
}

function safely(f) {
  try {
    f()
  } catch (error) {
    core.warn('watching a response has failed', error)
  }
}

// ---- responses ----

const textTypes = /^(text\/|application\/(json|javascript|xml|graphql|x-ndjson|[\w.+-]+\+(json|xml)))/i
const bodiless = new Set([204, 304]) // Node.js sends no body with them, whatever end is given
const responses = new WeakMap()

// headerOf returns a header of a response that is sent, also if writeHead was given it.
function headerOf(res, name) {
  const value = res.getHeader(name)
  if (value !== undefined || !res._header) return value === undefined ? '' : String(value)
  return (new RegExp(`^${name}: *(.*)\\r$`, 'im').exec(res._header) || ['', ''])[1]
}

// observe collects what a response sends, up to a bound, without changing it.
function observe(res, chunk, encoding, isPlain) {
  let s = responses.get(res)
  if (s === undefined) {
    s = null
    if (!core.active() || !core.options.http) return
    if (Math.random() >= core.options.responseSampleRate) core.sender.drop('sampled')
    else if (textTypes.test(headerOf(res, 'content-type') || 'text/plain')) s = { chunks: [], size: 0, isPlain }
    responses.set(res, s)
    if (s) finishOnClose(res, isPlain)
  }
  if (s) s.status ??= res.statusCode // that of the headers, which are sent by now
  if (!s || s.isPlain !== isPlain || chunk === null || chunk === undefined || typeof chunk === 'function') return
  const bytes = typeof chunk === 'string' ? Buffer.from(chunk, typeof encoding === 'string' ? encoding : 'utf8') : chunk
  const left = core.options.maxResponseBytes - s.size
  if (left <= 0 || !(bytes instanceof Uint8Array)) return
  s.chunks.push(Buffer.from(bytes.subarray(0, left)))
  s.size += Math.min(left, bytes.length)
  if (bytes.length >= left) finish(res, isPlain)
}

// finishOnClose checks a response also if the client or destroy ends it, and end is never called.
function finishOnClose(res, isPlain) {
  res.once('close', () => safely(() => finish(res, isPlain)))
}

function finish(res, isPlain) {
  const s = responses.get(res)
  if (!s || s.isPlain !== isPlain || !s.size) return
  responses.set(res, null)
  const { req } = res
  if (req?.method === 'HEAD' || bodiless.has(s.status)) return
  if (!textTypes.test(headerOf(res, 'content-type') || 'text/plain')) return
  const about = {
    method: req?.method, path: req?.originalUrl || req?.url, status: s.status,
    contentType: headerOf(res, 'content-type'),
  }
  const coding = isPlain ? '' : headerOf(res, 'content-encoding')
  // Not before the response is on its way. An immediate without a reference would wait for another event.
  const check = new Promise(soon).then(() => decompress(Buffer.concat(s.chunks), coding))
    .then((body) => checkResponse(body, about)).catch(() => core.sender.drop('sampled'))
    .finally(() => core.checks.delete(check))
  core.checks.add(check)
}

const soon = setImmediate // that of Node.js: jest's fake timers replace it, and flush would wait for them

const { constants } = zlib
const inflate = { finishFlush: constants.Z_SYNC_FLUSH } // without an error at the end of what is cut
const decoder = (f, options) => f && ((body) =>
  util.promisify(f)(body, { maxOutputLength: core.options.maxResponseBytes, ...options }))
const [inflated, inflatedRaw] = [decoder(zlib.inflate, inflate), decoder(zlib.inflateRaw, inflate)]
// For each coding what decompresses it. zlib of Node.js 22.15 has zstd. Some servers send deflate without zlib's header.
const decoders = {
  gzip: decoder(zlib.gunzip, inflate),
  deflate: (body) => inflated(body).catch(() => inflatedRaw(body)),
  br: decoder(zlib.brotliDecompress, { finishFlush: constants.BROTLI_OPERATION_FLUSH }),
  zstd: decoder(zlib.zstdDecompress, { finishFlush: constants.ZSTD_e_flush }),
  '': (body) => body,
  identity: (body) => body,
}

// decompress undoes the codings of a Content-Encoding, of which the last one was applied last. It rejects what is unknown
// and what is broken.
async function decompress(body, codings) {
  for (const coding of codings.toLowerCase().split(',').reverse()) {
    const name = coding.trim().replace(/^x-/, '')
    if (!Object.hasOwn(decoders, name)) throw new Error('unknown coding')
    body = await decoders[name](body)
  }
  return body
}

function watchResponse(target, isPlain) {
  for (const key of ['write', 'end']) {
    const wrap = (original) => function (chunk, encoding) {
      const result = original.apply(this, arguments)
      safely(() => {
        observe(this, chunk, encoding, isPlain)
        if (key === 'end') finish(this, isPlain)
      })
      return result
    }
    if (isPlain) target[key] = wrap(target[key])
    else replaceMethod(target, key, wrap)
  }
}

// relayMiddleware returns a middleware for Express and the like that checks responses as text. Mount it after
// compression().
export function relayMiddleware() {
  return function relayMiddleware(req, res, next) {
    safely(() => {
      if (!core.active() || !core.options.http || responses.has(res)) return
      const sampled = Math.random() < core.options.responseSampleRate
      if (!sampled) core.sender.drop('sampled')
      responses.set(res, sampled ? { chunks: [], size: 0, isPlain: true } : null)
      if (!sampled) return
      watchResponse(res, true)
      finishOnClose(res, true)
    })
    next()
  }
}

// ---- start and end ----

const loggers = /[\\/]node_modules[\\/](pino|winston|bunyan|log4js)[\\/]/

// warnIfLate warns of loggers that may hold the streams from before.
function warnIfLate() {
  core.quietly(() => {
    const loaded = Object.keys(createRequire(path.join(process.cwd(), 'x.js')).cache).map((file) => loggers.exec(file)?.[1])
    const names = [...new Set(loaded.filter(Boolean))]
    if (names.length) {
      process.stderr.write(`eventrelay: init was called after ${names.join(' and ')} was loaded: loggers made before are not ` +
        'masked. Start with node --import @eventrelay/sdk/register\n')
    }
  })
}

function patch() {
  const isFirst = !core.undo.length
  if (isFirst) warnIfLate()
  patchStream(process.stdout, 'stdout')
  patchStream(process.stderr, 'stderr')
  if (!isFirst) return
  watchResponse(http.ServerResponse.prototype, false)
  const onExit = () => { if (!core.sender.idle) flush() }
  process.once('beforeExit', onExit) // once: what waits for a relay that does not answer would start it again and again
  process.on('exit', sayUnsent)
  core.undo.push(() => process.off('beforeExit', onExit).off('exit', sayUnsent))
  watchErrors()
}

// watchErrors reports uncaught errors, and rejections of promises that nothing handles. What becomes of them is not changed.
function watchErrors() {
  const isFatal = () => !process.listenerCount('uncaughtException') && !process.hasUncaughtExceptionCaptureCallback()
  const onError = (error) => {
    core.reportError(error)
    if (!isFatal()) return
    let answer
    core.quietly(() => { answer = sendNow() })
    if (!answer) return
    asked = Infinity
    failure = null // sayUnsent has nothing to add
    core.sender.heard?.(answer, true)
  }
  const onRejection = (reason) => core.reportError(reason)
  // Rejections are errors, and end the process, if nothing listens to them: this does if the application does.
  const listeners = () => process.listeners(rejection).filter((f) => f !== onRejection).length
  const onNew = (event, f) => {
    if (event !== rejection || f === onRejection || process.listeners(rejection).includes(onRejection)) return
    process.prependListener(rejection, onRejection)
  }
  const onRemove = (event) => { if (event === rejection && !listeners()) process.off(rejection, onRejection) }
  if (listeners()) onNew(rejection)
  const own = { uncaughtExceptionMonitor: onError, newListener: onNew, removeListener: onRemove }
  for (const event in own) process.on(event, own[event])
  core.undo.push(() => {
    for (const event in own) process.off(event, own[event])
    process.off(rejection, onRejection)
  })
}

const rejection = 'unhandledRejection'

export function init(options) {
  callersOf(init)
  core.init(options)
  patch()
}

// checked resolves to true when the checks that run now have ended, to false after a time in ms.
function checked(time) {
  let timer
  const late = new Promise((resolve) => { timer = setTimeout(resolve, Math.min(time, 2 ** 31 - 1), false) })
  return Promise.race([Promise.all(core.checks).then(() => true), late]).finally(() => clearTimeout(timer))
}

export async function flush(timeout = 2000) {
  const end = performance.now() + timeout
  const areChecked = !core.checks.size || await checked(timeout)
  const sent = await core.flush(end - performance.now())
  if (!sent) sayUnsent()
  return sent && areChecked
}

export async function sendTest(timeout) {
  const sent = await core.sendTest(timeout)
  if (!sent) sayUnsent()
  return sent
}

export async function close(timeout) {
  const sent = await flush(timeout)
  core.stop()
  for (const f of core.undo.splice(0).reverse()) f()
  return sent
}

export const { mask, scan } = core

export function checkResponse(body, about) {
  return ArrayBuffer.isView(body) ? core.checkResponse(binaryOf(body), about, findBinary) : core.checkResponse(body, about)
}

export const clean = (text, logger, entry) => core.clean(text, logger, undefined, entry)
export { withheld } from './core.js'
export const withhold = (error) => core.withhold(error)
