// A destination of the relay: verifies each delivery with the Standard Webhooks library, handles each event once, and
// prints it. Node.js 20 or newer, after `npm ci`.
//
//   PORT=3000 RELAY_SIGNING_SECRET=whsec_… node receive.mjs
import { createServer } from "node:http";
import { Webhook } from "standardwebhooks";

const maxBody = 10 << 20;
const minKey = 24;
if (!process.env.RELAY_SIGNING_SECRET) fail("RELAY_SIGNING_SECRET is missing: it is the destination's signing.secret");
const webhook = newWebhook(process.env.RELAY_SIGNING_SECRET);
const handled = new Set(); // in an application: a unique column, written in the same transaction as the change

function fail(message) {
  console.error(message);
  process.exit(1);
}

function newWebhook(secret) {
  try {
    // The library would take a short key, even an empty one, with which anybody can sign.
    if (Buffer.from(secret.replace(/^whsec_/, ""), "base64").length >= minKey) return new Webhook(secret);
  } catch {
    // it is not base64
  }
  fail("RELAY_SIGNING_SECRET is invalid: it must be whsec_ and at least 24 bytes in base64");
}

// handle does the work of an event, once.
function handle(id, event) {
  if (handled.has(id)) return;
  console.log("received", id, event.type, JSON.stringify(event.data ?? event));
  handled.add(id);
}

// receive returns the status of the answer.
async function receive(request) {
  const parts = [];
  let size = 0;
  for await (const part of request) {
    if ((size += part.length) > maxBody) return 413;
    parts.push(part);
  }
  const body = Buffer.concat(parts); // the bytes as received: they are what is signed
  let event;
  try {
    event = webhook.verify(body, request.headers); // also parses the JSON
  } catch {
    return 401;
  }
  handle(request.headers["webhook-id"], event);
  return 204;
}

const server = createServer((request, response) => {
  receive(request).then(
    (status) => response.writeHead(status).end(),
    () => response.writeHead(500).end(), // the relay delivers it again
  );
});
server.on("error", (error) => fail(error.message)); // the port is in use
server.listen(Number(process.env.PORT ?? 0), "127.0.0.1", () => {
  console.log(`listening on 127.0.0.1:${server.address().port}`);
});
