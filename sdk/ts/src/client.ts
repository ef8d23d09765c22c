import createClient, { type FetchResponse, type MaybeOptionalInit } from "openapi-fetch";
import type { HttpMethod, PathsWithMethod, RequiredKeysOf } from "openapi-typescript-helpers";
import type { components, paths } from "./api.gen.js";
import { keyed } from "./keyed.gen.js";

type Schemas = components["schemas"];
type Json = "application/json";

type Operation = Record<string | number, any>;

/** The answer of a call. */
export type Answer<Of, Init = unknown> =
  Of extends Operation ? NonNullable<FetchResponse<Of, Init, Json>["data"]> : never;

/** The parameters and the body of a call, if it has any. */
type Input<Init> = RequiredKeysOf<Init> extends never ? [Init?] : [Init];

/** A call: its path, and its parameters and its body. It throws an APIError. */
export type Call<Method extends HttpMethod> = <
  Path extends PathsWithMethod<paths, Method>,
  Init extends MaybeOptionalInit<paths[Path], Method>,
>(path: Path, ...input: Input<Init>) => Promise<Answer<paths[Path][Method], Init>>;

/** The paths of lists, and the rows of one. */
export type ListPath = {
  [Path in keyof paths]: paths[Path] extends { get: { parameters: { query?: { cursor?: string } } } } ? Path : never;
}[keyof paths];
export type Row<Path extends ListPath> = Answer<paths[Path]["get"]> extends { data: (infer R)[] } ? R : never;

export interface Options {
  /** The relay, such as https://relay.example.com. */
  baseUrl: string;
  /** The API key. */
  key: string | undefined;
  fetch?: typeof globalThis.fetch;
  /** How often a call is tried: 5. */
  maxTries?: number;
  /** A longer Retry-After ends the call with its error: 60 s. In ms. */
  maxWait?: number;
  /** Of one try, and of the answer to a stream: 60 s. In ms. */
  timeout?: number;
}

/** An answer other than 2xx: its type, code, parameter, message and request id. */
export class APIError extends Error {
  override name = "APIError";
  readonly type: string;
  readonly code: string | undefined;
  readonly param: string | undefined;
  readonly requestId: string | undefined;
  constructor(
    readonly status: number,
    /** In ms, 0 if the service does not say. */
    readonly retryAfter: number,
    /** The whole error; empty if it is not of the relay, but of a proxy. */
    readonly detail: Partial<Schemas["ErrorDetail"]>,
  ) {
    super(`${status} ${detail.type ?? ""}: ${detail.message ?? ""} (request ${detail.request_id ?? "unknown"})`);
    this.type = detail.type ?? "";
    this.code = detail.code;
    this.param = detail.param;
    this.requestId = detail.request_id;
  }
}

/** The stream has ended for good: its key was revoked or its endpoint deleted. */
export class StreamEnded extends Error {
  override name = "StreamEnded";
}

/**
 * An item of a stream: an event, or a gap, which says that events are missing. The first item has neither: the stream
 * has begun.
 */
export interface Streamed {
  /** Stream on after it: stream(endpoint, { after: id }). */
  id: string;
  event?: Schemas["StreamEvent"];
  gap?: Schemas["StreamGap"];
}

const maxBatchEvents = 1000;
const maxBatchBytes = 5 << 20;
const maxBackoff = 10_000;
const silence = 45_000; // ms of a stream without a byte, which has one every 15 s
const maxStreamLine = 16 << 20; // characters; an event has at most 1 MiB of body, in base64, and its headers

/**
 * Calls the API. A call that fails for a moment is repeated: reads after 429, 5xx and a broken connection; writes only
 * with an Idempotency-Key, which the calls that take one get unless a header sets it.
 */
export class Relay {
  readonly GET: Call<"get">;
  readonly POST: Call<"post">;
  readonly PUT: Call<"put">;
  readonly PATCH: Call<"patch">;
  readonly DELETE: Call<"delete">;
  readonly #options: Required<Options>;

  constructor(options: Options) {
    if (!options.key) throw new TypeError("the API key is missing: set it, such as by RELAY_API_KEY");
    const defaults = { fetch: globalThis.fetch, maxTries: 5, maxWait: 60_000, timeout: 60_000 };
    this.#options = { ...defaults, ...options, baseUrl: options.baseUrl.replace(/\/+$/, "") };
    const client = createClient<paths, Json>({
      baseUrl: this.#options.baseUrl,
      headers: { Authorization: `Bearer ${options.key}` },
      fetch: (request) => this.#repeat(request),
    });
    client.use({
      onRequest({ request, schemaPath }) {
        if (keyed.has(`${request.method} ${schemaPath}`) && !request.headers.has("Idempotency-Key")) {
          request.headers.set("Idempotency-Key", crypto.randomUUID());
        }
      },
    });
    const call = <Method extends HttpMethod>(method: Method) =>
      (async (path: never, ...input: never) => (await client.request(method, path, ...input)).data) as Call<Method>;
    this.GET = call("get");
    this.POST = call("post");
    this.PUT = call("put");
    this.PATCH = call("patch");
    this.DELETE = call("delete");
  }

  /** Yields the rows of all pages of a list. */
  async *list<Path extends ListPath>(
    path: Path,
    ...input: Input<MaybeOptionalInit<paths[Path], "get">>
  ): AsyncGenerator<Row<Path>, void, undefined> {
    const page = this.GET as (path: Path, input: object) => Promise<{ data: Row<Path>[]; next_cursor?: string }>;
    const { params, ...rest } = (input[0] ?? {}) as { params?: { query?: object } };
    let cursor: { cursor?: string } = {};
    do {
      const query = { ...params?.query, ...cursor };
      const { data, next_cursor } = await page(path, { ...rest, params: { ...params, query } });
      yield* data;
      cursor = next_cursor === undefined ? {} : { cursor: next_cursor };
    } while (cursor.cursor !== undefined);
  }

  /**
   * Sends any number of events in batches and yields the result of each, in order: an id or an error. The index counts
   * all events. An error ends it: the events after the last result were not confirmed. With idempotencyKey it may be
   * repeated as a whole, with the same events: what was stored is not stored again.
   */
  async *sendAll(
    endpointId: string,
    events: Iterable<Schemas["BatchEvent"]> | AsyncIterable<Schemas["BatchEvent"]>,
    { idempotencyKey = crypto.randomUUID() as string } = {},
  ): AsyncGenerator<Schemas["BatchItem"], void, undefined> {
    let batch: Schemas["BatchEvent"][] = [];
    let bytes = 0;
    let first = 0;
    let count = 0;
    const flush = async (): Promise<Schemas["BatchItem"][]> => {
      const results = await this.#sendBatch(endpointId, batch, `${idempotencyKey}-${count++}`);
      const from = first;
      first += batch.length;
      batch = [];
      bytes = 0;
      return results.map((result) => ({ ...result, index: from + result.index }));
    };
    for await (const event of events) {
      const size = new TextEncoder().encode(JSON.stringify(event)).length + 1;
      const full = batch.length === maxBatchEvents || '{"events":[]}'.length + bytes + size > maxBatchBytes;
      if (full && batch.length > 0) {
        yield* await flush();
      }
      batch.push(event);
      bytes += size;
    }
    if (batch.length > 0) yield* await flush();
  }

  /** Sends a batch, and repeats it with the same key while events of it failed for the moment: none is stored twice. */
  async #sendBatch(endpoint_id: string, events: Schemas["BatchEvent"][], key: string): Promise<Schemas["BatchItem"][]> {
    const forNow = ["rate_limited", "unavailable", "internal", "timeout"];
    for (let tries = 1; ; tries++) {
      const { data } = await this.POST("/v1/endpoints/{endpoint_id}/events/batch", {
        params: { path: { endpoint_id }, header: { "Idempotency-Key": key } },
        body: { events },
      });
      const failed = data.some(({ error }) => error && forNow.includes(error.type));
      if (!failed || tries >= this.#options.maxTries) return data;
      await this.#pause(tries);
    }
  }

  /**
   * Yields the events of an endpoint as they are accepted, each once and in order: from now on, or those after the item
   * with an id. It reconnects after a cut and after the shutdown of a node, until signal is aborted. It throws a
   * APIError if it is refused, StreamEnded, or the network's error after maxTries without a connection at the start.
   */
  async *stream(
    endpointId: string,
    { after, signal }: { after?: string; signal?: AbortSignal } = {},
  ): AsyncGenerator<Streamed, void, undefined> {
    const url = `${this.#options.baseUrl}/v1/endpoints/${encodeURIComponent(endpointId)}/stream`;
    const headers: Record<string, string> = { Authorization: `Bearer ${this.#options.key}` };
    if (after !== undefined) headers["Last-Event-ID"] = after;
    let begun = false;
    for (let tries = 1; ; tries++) {
      const cut = new AbortController();
      const stop = () => cut.abort();
      signal?.addEventListener("abort", stop);
      if (signal?.aborted) stop();
      let timer = setTimeout(() => cut.abort(), this.#options.timeout);
      const waits = (waiting: boolean): void => {
        clearTimeout(timer);
        if (waiting) timer = setTimeout(() => cut.abort(), silence);
      };
      try {
        const response = await unless(cut.signal, this.#options.fetch(new Request(url, { headers, signal: cut.signal })));
        if (!response.ok || !response.body) throw await errorOf(response);
        for await (const { id, event, data } of items(response.body, waits, cut.signal)) {
          const value = JSON.parse(data || "{}");
          if (event === "end" && value.reason !== "shutdown") {
            throw new StreamEnded(`the stream has ended: ${value.reason}`);
          }
          if (id !== undefined) headers["Last-Event-ID"] = id;
          if (event === "event" || event === "gap") yield { id: id ?? "", [event]: value };
          if (event === "ready" && !begun) yield { id: id ?? "" };
          [begun, tries] = [true, 0];
        }
        throw new Error("the stream was cut");
      } catch (error) {
        if (signal?.aborted) return;
        const lasts = !temporary(error) || error instanceof StreamEnded || error instanceof SyntaxError;
        if (lasts || (!begun && tries >= this.#options.maxTries)) throw error;
        if (!(await this.#pause(tries, error, signal)) && !signal?.aborted) throw error;
      } finally {
        clearTimeout(timer);
        signal?.removeEventListener("abort", stop);
        cut.abort();
      }
    }
  }

  /** Makes a request until its answer is 2xx or no try is left. */
  async #repeat(request: Request): Promise<Response> {
    for (let tries = 1; ; tries++) {
      let answer: Response | undefined;
      const cut = new AbortController();
      const stop = () => cut.abort(request.signal.reason);
      request.signal.addEventListener("abort", stop);
      const late = () => cut.abort(new DOMException("there was no answer in time", "TimeoutError"));
      const timer = setTimeout(late, this.#options.timeout);
      try {
        answer = await unless(cut.signal, this.#options.fetch(new Request(request.clone(), { signal: cut.signal })));
        if (!answer.ok) throw await errorOf(answer);
        const body = await unless(cut.signal, answer.arrayBuffer());
        return new Response(body, answer); // what breaks while it is read is repeated, too
      } catch (error) {
        const again = tries < this.#options.maxTries && temporary(error) && repeatable(request, answer);
        if (!again || !(await this.#pause(tries, error, request.signal))) throw error;
      } finally {
        clearTimeout(timer);
        request.signal.removeEventListener("abort", stop);
      }
    }
  }

  /** Waits before the next try, and reports whether to make it. */
  async #pause(tries: number, error?: unknown, signal?: AbortSignal): Promise<boolean> {
    const retryAfter = error instanceof APIError ? error.retryAfter : 0;
    if (retryAfter > this.#options.maxWait) return false;
    const backoff = Math.min(100 * 2 ** tries, maxBackoff) * (0.5 + Math.random() / 2);
    await new Promise<void>((resolve) => {
      const timer = setTimeout(done, Math.max(backoff, retryAfter));
      function done(): void {
        clearTimeout(timer);
        signal?.removeEventListener("abort", done);
        resolve();
      }
      signal?.addEventListener("abort", done);
    });
    return !signal?.aborted;
  }
}

/**
 * Waits for work unless a signal is aborted. The work may miss that: Node.js collects signals that only follow another
 * one, such as those that a Request makes.
 */
async function unless<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  let stop: (() => void) | undefined;
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason);
    signal.addEventListener("abort", stop);
    if (signal.aborted) stop();
  });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    if (stop) signal.removeEventListener("abort", stop);
    work.catch(() => {}); // nobody waits for it any more
  }
}

/** Reports whether a call that failed with an error may succeed later. Without an answer it may. */
function temporary(error: unknown): boolean {
  return !(error instanceof APIError) || error.status === 429 || error.status >= 500;
}

function repeatable({ method, headers }: Request, answer: Response | undefined): boolean {
  if (method === "GET") return true;
  // A kept answer stays the same, and a key that could not be remembered protects nothing.
  const kept = answer?.headers.has("Idempotent-Replayed") || answer?.headers.has("Idempotency-Status");
  return headers.has("Idempotency-Key") && !kept;
}

async function errorOf(response: Response): Promise<APIError> {
  const seconds = Number(response.headers.get("Retry-After") ?? 0);
  const text = await response.text().catch(() => "");
  let detail: Partial<Schemas["ErrorDetail"]> = {};
  try {
    detail = JSON.parse(text).error ?? {};
  } catch {
    detail.message = text.slice(0, 200);
  }
  return new APIError(response.status, seconds > 0 ? seconds * 1000 : 0, {
    ...detail, request_id: detail.request_id ?? response.headers.get("X-Request-Id") ?? "unknown" });
}

/** Yields the server-sent events of a body. */
async function* items(
  body: ReadableStream<Uint8Array>,
  waits: (waiting: boolean) => void,
  cut: AbortSignal,
): AsyncGenerator<{ id?: string; event?: string; data?: string }, void, undefined> {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  cut.addEventListener("abort", () => void reader.cancel().catch(() => {})); // what is read ends
  let text = "";
  let item: Record<string, string> = {};
  for (;;) {
    waits(true);
    const { done, value } = await unless(cut, reader.read());
    waits(false);
    if (done) return;
    const lines = (text + value).split("\n");
    text = lines.pop() ?? "";
    if (text.length > maxStreamLine) throw new SyntaxError("the stream has a line that is too long");
    for (const line of lines) {
      const [, field = "", content = ""] = /^([^:]*):? ?(.*?)\r?$/.exec(line) ?? [];
      if (field) {
        item[field] = content;
      } else if (line.length < 2) { // empty; others are comments
        if (item["event"] !== undefined) yield item;
        item = {};
      }
    }
  }
}
