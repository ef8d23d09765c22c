/** Options of init; README.md explains them. */
export interface Options {
  /** Where reports go; without it secrets are masked and nothing is reported. It is public. */
  dsn?: string | undefined
  /** 1 to 64 characters of A-Z a-z 0-9 . _ @ / + - */
  environment?: string | undefined
  /** 1 to 64 characters of A-Z a-z 0-9 . _ @ / + - */
  release?: string | undefined
  /** false: neither masks nor reports. */
  enabled?: boolean | undefined
  /** Browsers: mask what the console is given. */
  console?: boolean | undefined
  /** Node.js: mask what is written to the standard output and error. */
  stdout?: boolean | undefined
  /** Node.js: report responses with keys of servers. */
  http?: boolean | undefined
  /** Browsers: report such responses to fetch, of the same origin or in responseUrls. */
  fetch?: boolean | undefined
  /** The part of responses that is read, 0 to 1. Default 1, in browsers 0.1. */
  responseSampleRate?: number | undefined
  /** How much of a response is read, in bytes. Default 256 KiB. */
  maxResponseBytes?: number | undefined
  /** Browsers: beginnings of URLs of other origins whose responses are read too. */
  responseUrls?: string[] | undefined
  /** How long equal hits are collected, in ms. Default 5,000. */
  flushInterval?: number | undefined
  /** How many different reports wait at most. Default 200. */
  queueSize?: number | undefined
  rules?: { disable?: string[] | undefined; extra?: ExtraRule[] | undefined } | undefined
  /** true: a line that cannot be masked is written as it is. */
  failOpen?: boolean | undefined
  /** Changes a report before it is sent, or drops it by returning null. A promise is refused, and the report dropped. */
  beforeSend?: ((report: Report) => Report | null) | undefined
  /**
   * Is given what fails in the SDK, and what the relay refuses; of a relay that cannot be reached an Error with a cause,
   * once an outage.
   */
  onError?: ((error: unknown) => void) | undefined
  debug?: boolean | undefined
}

/** A credential of your own: a prefix and min to max characters of a charset. At most 50 rules. */
export interface ExtraRule {
  /** 1 to 40 characters of a-z 0-9 -. It is reported as custom:id. */
  id: string
  /** 1 to 10 texts of 3 to 40 printable ASCII characters. */
  prefixes: string[]
  /** Default alnum. */
  charset?: Charset | undefined
  /** 8 to 1,024 characters. Default 16. */
  min?: number | undefined
  /** min to 1,024 characters. Default 128. */
  max?: number | undefined
  /** The least Shannon entropy of these characters, in bits a character, 0 to 6. Default 0. */
  entropy?: number | undefined
}

/** Sets of characters, of which alnum is A-Z a-z 0-9, word that and _, urlsafe that and -, dotted that and a dot. */
export type Charset = 'alnum' | 'base32' | 'base64' | 'client' | 'dash' | 'digit' | 'dotted' | 'hex' | 'letter' | 'lower' |
  'lownum' | 'padded' | 'token68' | 'upnum' | 'upper' | 'urlsafe' | 'uuid' | 'value' | 'word'

export interface Report {
  type: 'log' | 'response' | 'error'
  rule: string
  masked: string
  fp1?: string
  count: number
  first_at: string
  last_at: string
  where: Record<string, string | number>
}

export interface Match {
  rule: string
  /** Position in the text, in UTF-16 units. */
  start: number
  end: number
  masked: string
}

export interface About {
  method?: string | undefined
  path?: string | undefined
  status?: number | undefined
  contentType?: string | undefined
}

export function init(options?: Options): void
/**
 * Checks the responses that have ended and sends what waits. Resolves to true if nothing is left, to false after the time
 * in ms (default 2,000).
 */
export function flush(timeout?: number): Promise<boolean>
/** Sends what waits and restores what init has replaced. */
export function close(timeout?: number): Promise<boolean>
/** The text with a mask in place of each secret. Reports nothing. */
export function mask(text: string): string
/** The secrets in a text. Reports nothing. */
export function scan(text: string): Match[]
/** Reports keys of servers in a response, and returns them. */
export function checkResponse(body: string | Uint8Array, about?: About): { rule: string; masked: string }[]
/** Reports a key that opens nothing. Its finding is marked as a test. Resolves to true if the relay has accepted it. */
export function sendTest(timeout?: number): Promise<boolean>
