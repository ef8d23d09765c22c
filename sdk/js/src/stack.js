// The place in the application from which something is logged.

// A frame of V8 with a path or URL: the function, the file, the line and the column. Others are Node.js itself, or eval.
const frame = /^\s*at (?:async )?(?:([^()]*) \()?((?:[a-z][a-z-]*:\/\/|[a-z]:[\\/]|[\\/]).*?):(\d+):(\d+)\)?$/i

// lines returns the frames of an error as they are written, without its message, whose lines may look like frames.
const lines = ({ stack, message }) => String(stack || '').replace(String(message), '').split('\n').slice(1)

const fileOf = (line) => (frame.exec(line) || [])[2] || ''

// The SDK's own file, or their directory if they are not in a bundle with the application.
const file = fileOf(lines(new Error())[0] || '')
const own = /stack\.js$|@eventrelay.sdk/.test(file) ? file.replace(/[^/\\]*$/, '') : file

// Whether the application calls the SDK from the SDK's own file: both are in one bundle, whose frames are the application's.
export let isBundle = false

// callersOf returns the frames below entry, the function of the SDK that was called. V8 leaves out the frames above it.
export function callersOf(entry) {
  const { stackTraceLimit } = Error
  Reflect.set(Error, 'stackTraceLimit', 40) // no error under --frozen-intrinsics
  const error = new Error()
  Error.captureStackTrace?.(error, entry)
  Reflect.set(Error, 'stackTraceLimit', stackTraceLimit)
  const frames = lines(error)
  if (entry && fileOf(frames.find(fileOf) || '') === file) isBundle = true
  return frames
}

export const framesOf = (error, entry) => (error ? lines(error) : callersOf(entry))

// placeOf returns the first frame outside of the SDK, Node.js and packages. toPath returns what of a file is sent.
export function placeOf(frames, toPath) {
  const others = frames.filter((line) => fileOf(line) && (isBundle || !fileOf(line).startsWith(own)))
  const line = others.find((l) => !/[\\/]node_modules[\\/]/.test(fileOf(l))) || others[0]
  if (!line) return {}
  const [, name, path, row, column] = frame.exec(line)
  return { file: toPath(path), line: +row, column: +column, function: name }
}
