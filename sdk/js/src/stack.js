// The place in the application from which something is logged.

// A frame of V8 with a path or URL: the function, the file, the line and the column. Others are Node.js itself, or eval.
const frame = /^\s*at (?:async )?(?:([^()]*) \()?((?:[a-z][a-z-]*:\/\/|[a-z]:[\\/]|[\\/]).*?):(\d+):(\d+)\)?$/i

// lines returns the frames of an error as they are written, without its message, whose lines may look like frames.
const lines = ({ stack, message }) => String(stack || '').replace(String(message), '').split('\n').slice(1)

const fileOf = (line) => (frame.exec(line) || [])[2] || ''

// The SDK's own file, or their directory if they are not in a bundle with the application.
const file = fileOf(lines(new Error())[0] || '')
const own = /stack\.js$|@eventrelay.sdk/.test(file) ? file.replace(/[^/\\]*$/, '') : file

function stackOf() {
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = 40
  const error = new Error()
  Error.stackTraceLimit = stackTraceLimit
  return lines(error)
}

// whereFrom returns the first frame outside of the SDK, Node.js and packages, and the logger. toPath returns what of a file
// is sent.
export function whereFrom(logger, error, toPath) {
  const stack = error?.stack ? lines(error) : stackOf()
  const others = stack.filter((line) => fileOf(line) && !fileOf(line).startsWith(own))
  const line = others.find((l) => !/[\\/]node_modules[\\/]/.test(fileOf(l))) || others[0]
  const level = stack.map((l) => /^\s*at (?:Object\.)?console\.(\w+) \(/.exec(l)).filter(Boolean).pop()
  const where = { logger: level ? `console.${level[1]}` : logger }
  if (!line) return where
  const [, name, file, row, column] = frame.exec(line)
  return { ...where, file: toPath(file), line: +row, column: +column, function: name }
}
