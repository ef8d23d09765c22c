// Runs the main path of the API with a client generated from its OpenAPI document. A mistake of the document about a
// request or an answer does not compile; a mistake of the API fails an assertion.
import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

const baseUrl = process.env["RELAY_BASE_URL"];
const key = process.env["RELAY_API_KEY"];
assert.ok(baseUrl && key, "RELAY_BASE_URL and RELAY_API_KEY are needed");

const relay = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${key}` } });

/** good is the answer of a call that must not fail. */
async function good<T>(call: Promise<{ data?: T; error?: unknown; response: Response }>): Promise<T> {
  const { data, error, response } = await call;
  assert.ok(response.ok && data !== undefined, `${response.url}: ${response.status} ${JSON.stringify(error)}`);
  return data;
}

/** refused is the error of a call that must fail. */
async function refused(
  call: Promise<{ data?: unknown; error?: components["schemas"]["Error"]; response: Response }>,
  status: number,
): Promise<components["schemas"]["ErrorDetail"]> {
  const { error, response } = await call;
  assert.equal(response.status, status);
  assert.ok(error);
  assert.equal(error.error.request_id, response.headers.get("x-request-id"));
  assert.ok(error.error.doc_url.endsWith("#" + error.error.type));
  return error.error;
}

const me = await good(relay.GET("/v1/me"));
assert.equal(me.scope, "read_write");

// Capture only: nothing is sent to another machine.
const endpoint = await good(
  relay.POST("/v1/endpoints", {
    body: { name: "generated client", destinations: [{ url: "https://example.com/hook", enabled: false }] },
  }),
);
const path = { endpoint_id: endpoint.id };
const destination = endpoint.destinations[0];
assert.ok(destination);
assert.match(destination.signing.secret ?? "", /^whsec_/, "the answer that makes a secret shows it");
assert.equal(destination.state, "disabled");
const read = await good(relay.GET("/v1/endpoints/{endpoint_id}", { params: { path } }));
assert.equal(read.destinations[0]?.signing.secret, undefined);
const changed = await good(
  relay.PATCH("/v1/endpoints/{endpoint_id}", { params: { path }, body: { retry_policy: { max_attempts: 3 } } }),
);
assert.deepEqual(changed.retry_policy, { ...read.retry_policy, max_attempts: 3 });

// Sending; a repeat with the same key is the same event.
const ids: string[] = [];
for (let n = 0; n < 5; n++) {
  const send = () =>
    relay.POST("/v1/endpoints/{endpoint_id}/events", {
      params: { path, header: { "Idempotency-Key": `order-${n}` } },
      body: { type: "order.created", data: { n } },
    });
  const event = await good(send());
  assert.equal(event.reason, "no_destination");
  assert.equal((await good(send())).id, event.id);
  ids.push(event.id);
}

const event = await good(relay.GET("/v1/events/{event_id}", { params: { path: { event_id: ids[0] ?? "" } } }));
assert.equal(event.body_encoding, "utf8");
assert.deepEqual(JSON.parse(event.body).data, { n: 0 });
assert.deepEqual(event.attempts, []);

// Following the cursor shows each event once, the newest first, and ends without a cursor.
const seen: string[] = [];
let cursor: string | undefined;
do {
  const page = await good(
    relay.GET("/v1/events", {
      params: { query: { endpoint_id: [endpoint.id], limit: 2, ...(cursor === undefined ? {} : { cursor }) } },
    }),
  );
  for (const row of page.data) {
    seen.push(row.id);
    assert.equal(row.attempts, 0);
  }
  cursor = page.next_cursor;
} while (cursor !== undefined);
assert.deepEqual(seen, [...ids].reverse());

// A replay without enabled destinations queues nothing and says so.
const replay = await good(
  relay.POST("/v1/events/{event_id}/replay", { params: { path: { event_id: event.id } }, body: {} }),
);
assert.deepEqual([replay.events, replay.queued, replay.truncated], [1, 0, false]);
assert.ok(replay.warnings?.length);

const receipt = await good(
  relay.POST("/v1/events/{event_id}/processing", {
    params: { path: { event_id: event.id } },
    body: { state: "processed", reference: "job-1" },
  }),
);
assert.deepEqual([receipt.state, receipt.applied], ["processed", true]);

// Errors are typed too.
const wrong = await refused(relay.POST("/v1/endpoints", { body: { url: "http://example.com/hook" } }), 400);
assert.deepEqual([wrong.type, wrong.param], ["invalid_request", "url"]);
const missing = await refused(relay.GET("/v1/events/{event_id}", { params: { path: { event_id: "evt_nope" } } }), 404);
assert.equal(missing.type, "not_found");
const stranger = createClient<paths>({ baseUrl, headers: { Authorization: "Bearer wrong" } });
assert.equal((await refused(stranger.GET("/v1/me"), 401)).type, "invalid_api_key");

const gone = await good(relay.DELETE("/v1/endpoints/{endpoint_id}", { params: { path } }));
assert.deepEqual([gone.id, gone.deleted], [endpoint.id, true]);
await refused(relay.GET("/v1/endpoints/{endpoint_id}", { params: { path } }), 404);

console.log("the generated client: endpoint, 5 events sent twice, pages, replay, receipt and errors as described");
