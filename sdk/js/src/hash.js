// HMAC-SHA256 (RFC 2104, FIPS 180-4), needed synchronously, which the Web Crypto of browsers is not.

// The first 32 bits of the fractional parts of the roots of the first primes.
const primes = []
for (let n = 2; primes.length < 64; n++) if (primes.every((p) => n % p)) primes.push(n)
const fraction = (x) => ((x % 1) * 2 ** 32) | 0
const constants = primes.map((p) => fraction(Math.cbrt(p)))
const initial = primes.slice(0, 8).map((p) => fraction(Math.sqrt(p)))

const rotations = (x, ...all) => all.reduce((sum, n) => sum ^ ((x >>> n) | (x << (32 - n))), 0)

// sha256 returns the hash of less than 512 MiB of bytes.
export function sha256(bytes) {
  const blocks = new Uint8Array((bytes.length + 72) & ~63)
  blocks.set(bytes)
  blocks[bytes.length] = 0x80
  const view = new DataView(blocks.buffer)
  view.setUint32(blocks.length - 4, bytes.length << 3)
  let state = initial
  const w = new Int32Array(64)
  for (let at = 0; at < blocks.length; at += 64) {
    for (let i = 0; i < 16; i++) w[i] = view.getInt32(at + 4 * i)
    for (let i = 16; i < 64; i++) {
      const s0 = rotations(w[i - 15], 7, 18) ^ (w[i - 15] >>> 3)
      const s1 = rotations(w[i - 2], 17, 19) ^ (w[i - 2] >>> 10)
      w[i] = w[i - 16] + s0 + w[i - 7] + s1
    }
    let turned = state
    for (let i = 0; i < 64; i++) {
      const [a, b, c, d, e, f, g, h] = turned
      const t1 = h + rotations(e, 6, 11, 25) + (g ^ (e & (f ^ g))) + constants[i] + w[i]
      const t2 = rotations(a, 2, 13, 22) + ((a & b) | (c & (a | b)))
      turned = [(t1 + t2) | 0, a, b, c, (d + t1) | 0, e, f, g]
    }
    state = state.map((x, i) => (x + turned[i]) | 0)
  }
  return Uint8Array.from({ length: 32 }, (_, i) => state[i >> 2] >>> (24 - 8 * (i & 3)))
}

// hmac returns HMAC-SHA256 of bytes, with a key of at most 64 bytes.
export function hmac(key, bytes) {
  const pad = (value, message) => {
    const block = new Uint8Array(64 + message.length).fill(value, 0, 64)
    key.forEach((c, i) => { block[i] ^= c })
    block.set(message, 64)
    return sha256(block)
  }
  return pad(0x5c, pad(0x36, bytes))
}
