// Sends one event to an endpoint of the relay and prints the event's id. Node.js 20 or newer.
//
//   RELAY_BASE_URL=http://localhost:8080 RELAY_API_KEY=rly_live_… node send.mjs ep_… order.paid '{"amount":4200}'
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

const maxTries = 5;

// send sends an event and returns its id. It repeats a request that failed. The key is the same each time, so that the
// event is stored once.
async function send(endpoint, type, data) {
  const key = randomUUID(); // in an application: an id that the change already has, such as the order's
  for (let tries = 1; ; tries++) {
    let failure, wait = tries * tries * 200;
    try {
      const response = await fetch(`${process.env.RELAY_BASE_URL}/v1/endpoints/${endpoint}/events`, {
        method: "POST",
        headers: {
          Authorization: `Bearer ${process.env.RELAY_API_KEY}`,
          "Content-Type": "application/json",
          "Idempotency-Key": key,
        },
        body: JSON.stringify({ type, data }),
        signal: AbortSignal.timeout(15_000),
      });
      if (response.status === 202) return (await response.json()).id;
      failure = new Error(`${response.status}: ${await response.text()}`);
      if (response.status !== 429 && response.status < 500) tries = maxTries; // it would fail again
      wait = Math.max(wait, 1000 * (Number(response.headers.get("retry-after")) || 0));
    } catch (error) {
      failure = error; // no answer: it may or may not have been stored
    }
    if (tries >= maxTries) throw failure;
    await sleep(wait);
  }
}

const [endpoint, type, data] = process.argv.slice(2);
if (process.argv.length !== 5 || !process.env.RELAY_BASE_URL) {
  console.error("usage: RELAY_BASE_URL=… RELAY_API_KEY=… node send.mjs ENDPOINT TYPE JSON");
  process.exit(1);
}
try {
  console.log(await send(endpoint, type, JSON.parse(data)));
} catch (error) {
  console.error(error.message, error.cause?.code ?? ""); // such as "fetch failed ECONNREFUSED"
  process.exitCode = 1;
}
