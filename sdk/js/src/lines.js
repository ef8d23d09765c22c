// Finds and masks secrets in JavaScript strings, whose characters the engine does not know: it reads bytes of UTF-8.

const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

export const isASCII = (text) => !/[^\x00-\x7f]/.test(text)

// toBinary returns the bytes of a text in UTF-8, one character for each.
function toBinary(text) {
  const bytes = encoder.encode(text)
  let out = ''
  for (let i = 0; i < bytes.length; i += 8192) out += String.fromCharCode(...bytes.subarray(i, i + 8192))
  return out
}

export function toBytes(binary) {
  const bytes = new Uint8Array(binary.length)
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i)
  return bytes
}

// positions returns where bytes of the UTF-8 of a text are in the text. The offsets ascend, and are between characters.
function positions(binary, offsets) {
  let [from, units] = [0, 0]
  return offsets.map((offset) => {
    units += decoder.decode(toBytes(binary.slice(from, offset))).length
    from = offset
    return units
  })
}

// findBinary returns the matches in a binary string, with the secret as the engine reads it.
export const findBinary = (scanner, binary) => withSecrets(scanner.scan(binary), binary)

const withSecrets = (found, binary) => found.map((m) => ({ ...m, secret: binary.slice(m.start, m.end) }))

// find returns the matches in a text, with positions in it and the secret as the engine reads it.
export function find(scanner, text) {
  if (!scanner.mayMatch(text)) return []
  const binary = isASCII(text) ? text : toBinary(text)
  const found = findBinary(scanner, binary)
  const at = binary === text ? null : positions(binary, found.flatMap((m) => [m.start, m.end]))
  return at ? found.map((m, i) => ({ ...m, start: at[2 * i], end: at[2 * i + 1] })) : found
}

const none = []

// maskText returns a text with masks, and what was found: {rule, secret}.
export function maskText(scanner, text) {
  if (!scanner.mayMatch(text)) return { text, found: none }
  if (isASCII(text)) return maskBinary(scanner, text)
  const masked = maskBinary(scanner, toBinary(text))
  return { text: masked.found.length ? decoder.decode(toBytes(masked.text)) : text, found: masked.found }
}

// maskBinary does the same for a binary string.
export function maskBinary(scanner, binary) {
  const { text, found } = scanner.maskAll(binary)
  return { text, found: withSecrets(found, binary) }
}
