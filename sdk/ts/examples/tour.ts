// An example: it sends events, lists them, streams them, and reads an error.
//
// npx tsc tour.ts, then RELAY_BASE_URL=http://localhost:8080 RELAY_API_KEY=rly_live_… node tour.js
import { APIError, Relay } from "@eventrelay/client";

const events = 2101;
const relay = new Relay({ baseUrl: process.env["RELAY_BASE_URL"] ?? "", key: process.env["RELAY_API_KEY"] ?? "" });

const me = await relay.GET("/v1/me");
console.log("scope", me.scope);

// A paused endpoint stores events and delivers none.
const endpoint = await relay.POST("/v1/endpoints", {
  body: { name: "tour in TypeScript", url: "https://example.com/hook", paused: true },
});
const path = { endpoint_id: endpoint.id };

const stream = relay.stream(endpoint.id);
await stream.next(); // the stream has begun
const streamed = all();

await relay.POST("/v1/endpoints/{endpoint_id}/events", {
  params: { path },
  body: { type: "order.paid", data: { amount: 4200 } },
});
let stored = 0;
for await (const result of relay.sendAll(endpoint.id, orders(events - 1))) {
  if (result.error === undefined) stored++;
}
console.log("stored", stored);

let listed = 0;
for await (const event of relay.list("/v1/events", { params: { query: { endpoint_id: [endpoint.id], limit: 100 } } })) {
  if (event.endpoint_id === endpoint.id) listed++;
}
console.log("listed", listed);

try {
  await relay.GET("/v1/events/{event_id}", { params: { path: { event_id: "evt_nope" } } });
} catch (error) {
  if (!(error instanceof APIError)) throw error;
  console.log("refused", error.status, error.type);
}
console.log("streamed", await streamed);
await relay.DELETE("/v1/endpoints/{endpoint_id}", { params: { path } });

/** Returns when it has seen all events as they were accepted, each once. */
async function all(): Promise<number> {
  const seen = new Set<string>();
  for await (const { event } of stream) {
    if (event && seen.has(event.id)) throw new Error(`${event.id} came twice`);
    if (event) seen.add(event.id);
    if (seen.size === events) break;
  }
  return seen.size;
}

function* orders(n: number) {
  for (let number = 0; number < n; number++) yield { type: "order.created", data: { number } };
}
