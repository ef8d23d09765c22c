// The place in the application from which something is logged.

const position = /^(.*):(\d+):(\d+)$/
const frame = /^\s*at (?:(.*?) \()?(.*?)\)?$/

const lines = (error) => String(error.stack || '').split('\n').slice(1)

// fileOf returns the file of a frame without its position.
const fileOf = (line) => (position.exec((frame.exec(line) || [])[2] || '') || [])[1] || ''

// The directory of the SDK's own files.
const own = fileOf(lines(new Error())[0] || '').replace(/[^/\\]*$/, '')

function stackOf() {
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = 40
  const error = new Error()
  Error.stackTraceLimit = stackTraceLimit
  return lines(error)
}

// whereFrom returns the first frame outside of the SDK, Node.js and packages, and the logger.
export function whereFrom(logger, error, root, toPath) {
  const stack = error instanceof Error ? lines(error) : stackOf()
  const isOther = (line) => {
    const file = fileOf(line)
    return file && !file.startsWith('node:') && file !== 'native' && file !== '<anonymous>' && !file.startsWith(own)
  }
  const others = stack.filter(isOther)
  const line = others.find((l) => !/[\\/]node_modules[\\/]/.test(fileOf(l))) || others[0]
  const level = stack.map((l) => /^\s*at (?:Object\.)?console\.(\w+) \(/.exec(l)).filter(Boolean).pop()
  const where = { logger: level ? `console.${level[1]}` : logger }
  if (!line) return where
  const [, name, location] = frame.exec(line)
  let [, file, row, column] = position.exec(location)
  try {
    if (file.startsWith('file:')) file = toPath(file)
  } catch { /* it stays a URL */ }
  if (file.startsWith(root)) file = file.slice(root.length)
  return { ...where, file, line: Number(row), column: Number(column), function: name }
}
