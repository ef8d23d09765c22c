const tolerance = 300; // seconds that the time of a delivery may be from now

type HeaderSource = Headers | Record<string, string | string[] | undefined>;

/** A delivery is not what the relay has signed in the last five minutes: answer 401. */
export class VerificationError extends Error {
  override name = "VerificationError";
}

/**
 * Verifies deliveries of one destination by Standard Webhooks. It takes the destination's signing.secret (whsec_…) or
 * its signing.public_key (whpk_…). With several, for a rotation, each of them verifies.
 */
export class Verifier {
  readonly #keys: { version: string; algorithm: string; key: Promise<CryptoKey> }[];

  constructor(...keys: string[]) {
    this.#keys = keys.map((text) => {
      const bytes = decode(text.replace(/^(whsec|whpk)_/, ""));
      if (text.startsWith("whsec_") && bytes !== undefined && bytes.length >= 24) {
        const key = crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
        return { version: "v1", algorithm: "HMAC", key };
      }
      if (text.startsWith("whpk_") && bytes?.length === 32) {
        const key = crypto.subtle.importKey("raw", bytes, "Ed25519", false, ["verify"]);
        return { version: "v1a", algorithm: "Ed25519", key };
      }
      throw new TypeError("a key is neither whsec_ with at least 24 bytes in base64, nor whpk_ with 32");
    });
    if (keys.length === 0) throw new TypeError("there is no key");
  }

  /**
   * Returns the id of a delivery, by which to handle it once, or throws a VerificationError. Give it the body as it was
   * received, before anything decodes it. now is in seconds.
   */
  async verify(headers: HeaderSource, body: Uint8Array | string, now = Date.now() / 1000): Promise<string> {
    const read = (name: string): string => {
      const value = headers instanceof Headers ? headers.get(name) : headers[name];
      return (Array.isArray(value) ? value.join(" ") : value) ?? "";
    };
    const prefix = read("relay-webhook-signature") ? "relay-webhook-" : "webhook-"; // else those are the provider's
    const id = read(`${prefix}id`);
    const sent = read(`${prefix}timestamp`);
    if (!id || id.includes(".")) {
      throw new VerificationError("the id is missing or has a full stop, which would move the body's beginning");
    }
    if (!/^\d{1,15}$/.test(sent)) throw new VerificationError("the timestamp is missing or malformed");
    if (Math.abs(now - Number(sent)) > tolerance) throw new VerificationError("the timestamp is too far from now");
    const text = new TextEncoder();
    const start = text.encode(`${id}.${sent}.`);
    const rest = typeof body === "string" ? text.encode(body) : body;
    const signed = new Uint8Array(start.length + rest.length);
    signed.set(start);
    signed.set(rest, start.length);
    for (const signature of read(`${prefix}signature`).split(" ")) {
      const [version, encoded = ""] = signature.split(",");
      const given = decode(encoded);
      for (const { version: of, algorithm, key } of this.#keys) {
        if (of === version && given && (await crypto.subtle.verify(algorithm, await key, given, signed))) return id;
      }
    }
    throw new VerificationError("no signature matches");
  }
}

function decode(base64: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  } catch {
    return undefined;
  }
}
