// The SDK in Node.js: what is written to the standard streams, sent by HTTP servers, and thrown.
import http from 'node:http'
import https from 'node:https'
import { createRequire } from 'node:module'
import path from 'node:path'
import zlib from 'node:zlib'
import { fileURLToPath } from 'node:url'
import { newCore } from './core.js'
import { whereFrom } from './stack.js'

const shared = Symbol.for('@eventrelay/sdk')
const sendTimeout = 10_000
const gzipAbove = 32_000

// post sends a batch. Its socket keeps no process alive.
function post(url, body) {
  return new Promise((resolve, reject) => {
    const isLong = body.length > gzipAbove
    const data = isLong ? zlib.gzipSync(body) : Buffer.from(body)
    const request = (url.startsWith('https:') ? https : http).request(url, {
      method: 'POST', agent: false, timeout: sendTimeout,
      headers: {
        'content-type': 'text/plain;charset=UTF-8', 'content-length': data.length, ...(isLong && { 'content-encoding': 'gzip' }),
      },
    }, (response) => {
      response.on('error', reject).on('end', () =>
        resolve({ status: response.statusCode, retryAfter: response.headers['retry-after'] })).resume()
    })
    const timer = setTimeout(() => request.destroy(new Error('the relay has not answered in time')), sendTimeout)
    timer.unref()
    request.on('socket', (socket) => socket.unref())
    request.on('error', reject).on('close', () => clearTimeout(timer))
    request.end(data)
  })
}

function newNodeCore() {
  const toBuffer = (chunk) => Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
  return newCore({
    transport: post,
    maxBytes: 128 << 10,
    warn: (text) => process.stderr.write(text + '\n'),
    whereOf: (logger, error) => whereFrom(logger, error, process.cwd() + path.sep, fileURLToPath),
    binary: (chunk) => toBuffer(chunk).toString('latin1'),
    bytes: (binary) => Buffer.from(binary, 'latin1'),
    isBytes: (value) => value instanceof Uint8Array,
  })
}

// Of several copies of the SDK in one process (ESM and CJS, jest's realms) the first one does the work.
const core = globalThis[shared] || process.stdout.write[shared] || newNodeCore()
globalThis[shared] = core
core.undo ||= []

const utf8 = (encoding) => encoding === undefined || encoding === null || /^(utf-?8|latin1|binary|ascii)$/i.test(encoding)

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

function patchStream(stream, logger) {
  const tail = { text: '' }
  replaceMethod(stream, 'write', (original) => function write(chunk, encoding, callback) {
    if (!core.active() || !core.options.stdout || this !== stream) return original.apply(this, arguments)
    let text = chunk
    if (typeof chunk === 'string' && typeof encoding === 'string' && !utf8(encoding)) text = decode(chunk, encoding)
    if (typeof text !== 'string' && !(text instanceof Uint8Array)) return original.apply(this, arguments)
    const masked = core.clean(text, logger, tail)
    if (masked === text) return original.apply(this, arguments)
    return typeof encoding === 'function' ? original.call(this, masked, encoding)
      : original.call(this, masked, typeof masked === 'string' && utf8(encoding) ? encoding : undefined, callback)
  })
}

function decode(text, encoding) {
  try {
    return Buffer.from(text, encoding)
  } catch {
    return text // the stream refuses it
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
  }
  if (!s || s.isPlain !== isPlain || chunk === null || chunk === undefined || typeof chunk === 'function') return
  const bytes = typeof chunk === 'string' ? Buffer.from(chunk, typeof encoding === 'string' ? encoding : 'utf8') : chunk
  const left = core.options.maxResponseBytes - s.size
  if (left <= 0 || !(bytes instanceof Uint8Array)) return
  s.chunks.push(Buffer.from(bytes.subarray(0, left)))
  s.size += Math.min(left, bytes.length)
}

function finish(res, isPlain) {
  const s = responses.get(res)
  if (!s || s.isPlain !== isPlain || !s.size) return
  responses.set(res, null)
  if (!textTypes.test(headerOf(res, 'content-type') || 'text/plain')) return
  const { req } = res
  const about = {
    method: req?.method, path: req?.originalUrl || req?.url, status: res.statusCode,
    contentType: headerOf(res, 'content-type'),
  }
  const coding = isPlain ? '' : headerOf(res, 'content-encoding')
  setImmediate(() => decompress(Buffer.concat(s.chunks), coding, (body) => core.checkResponse(body, about))).unref()
}

function decompress(body, coding, done) {
  const { maxResponseBytes } = core.options
  const { constants } = zlib
  const f = { gzip: zlib.gunzip, 'x-gzip': zlib.gunzip, deflate: zlib.inflate, br: zlib.brotliDecompress }[coding]
  if (!f) return coding === '' || coding === 'identity' ? done(body) : core.sender.drop('sampled')
  const flush = coding === 'br' ? constants.BROTLI_OPERATION_FLUSH : constants.Z_SYNC_FLUSH
  f(body, { maxOutputLength: maxResponseBytes, finishFlush: flush }, (error, text) => {
    if (error) core.sender.drop('sampled')
    else done(text)
  })
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
      if (sampled) watchResponse(res, true)
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
  if (core.undo.length) return
  warnIfLate()
  patchStream(process.stdout, 'stdout')
  patchStream(process.stderr, 'stderr')
  watchResponse(http.ServerResponse.prototype, false)
  const onError = (error) => core.reportError(error)
  const onExit = () => { if (!core.sender.idle) core.flush() }
  process.on('uncaughtExceptionMonitor', onError)
  process.once('beforeExit', onExit) // once: what waits for a relay that does not answer would start it again and again
  core.undo.push(() => {
    process.off('uncaughtExceptionMonitor', onError)
    process.off('beforeExit', onExit)
  })
}

export function init(options) {
  core.init(options)
  patch()
}

export async function close(timeout) {
  const sent = await core.flush(timeout)
  core.stop()
  for (const f of core.undo.splice(0).reverse()) f()
  return sent
}

export const { mask, scan, flush, sendTest, checkResponse } = core
export const clean = (text, logger) => core.clean(text, logger)
export const withhold = (error) => core.withhold(error)
