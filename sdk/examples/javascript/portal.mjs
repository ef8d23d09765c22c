// An application that shows its customers their webhooks: the portal of the relay in a frame. Node.js 20 or newer, and
// a relay with RELAY_PORTAL_ORIGINS=http://localhost:3000.
//
//   RELAY_BASE_URL=http://127.0.0.1:8080 RELAY_API_KEY=rly_live_… node portal.mjs
//
// It has pages /?customer=NAME, with the frame; /order?customer=NAME, which sends an event; and /refresh, where the portal
// gets its next link.
import { createServer } from "node:http";

const relay = process.env.RELAY_BASE_URL;
const port = Number(process.env.PORT ?? 3000);
const own = `http://localhost:${port}`;
if (!relay || !process.env.RELAY_API_KEY) {
  console.error("usage: RELAY_BASE_URL=… RELAY_API_KEY=… node portal.mjs");
  process.exit(1);
}

// call makes one call of the relay's API.
async function call(method, path, body) {
  const response = await fetch(relay + path, {
    method,
    headers: { Authorization: `Bearer ${process.env.RELAY_API_KEY}`, "Content-Type": "application/json" },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(15_000),
  });
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
  return response.json();
}

// newLink creates the tenant, unless it is there, and a link for one visit.
async function newLink(customer) {
  await call("PUT", `/v1/tenants/${customer}`, { name: customer, portal: { title: "Shop webhooks", color: "#0b6e4f" } });
  const { url } = await call("POST", `/v1/tenants/${customer}/portal_links`, {
    can: ["destinations", "secrets", "replay", "test"],
    return_url: `${own}/?customer=${customer}`,
    refresh_url: `${own}/refresh?customer=${customer}`,
  });
  return url;
}

// customerOf returns who is signed in. A real application takes it from its session, never from the URL.
function customerOf(url) {
  const name = url.searchParams.get("customer") ?? "customer-1";
  if (!/^[A-Za-z0-9._:-]{1,64}$/.test(name)) throw new Error("no such customer");
  return name;
}

// page has the frame, which becomes as high as what it shows.
const page = (link, customer) => `<!doctype html><html lang="en"><meta name="viewport" content="width=device-width"><title>Shop</title>
<h1>Webhooks of ${customer}</h1>
<p><a href="/order?customer=${customer}">Place an order</a>, which sends an event</p>
<iframe src="${link}" title="Webhooks" width="100%" height="600" style="border:0"></iframe>
<script>
addEventListener("message", ({ origin, data }) => {
  if (origin !== "${new URL(link).origin}") return;
  const frame = document.querySelector("iframe");
  if (data?.type === "eventrelay:height") frame.height = data.height;
  if (data?.type === "eventrelay:page") frame.scrollIntoView();
});
</script></html>`;

const server = createServer(async (request, response) => {
  const url = new URL(request.url, own);
  try {
    const customer = customerOf(url);
    if (url.pathname === "/refresh") {
      response.writeHead(303, { Location: await newLink(customer) }).end();
    } else if (url.pathname === "/order") {
      await call("POST", `/v1/tenants/${customer}/events`, { type: "order.paid", data: { order_id: Date.now() } });
      response.writeHead(303, { Location: `/?customer=${customer}` }).end();
    } else {
      const text = page(await newLink(customer), customer);
      response.writeHead(200, { "Content-Type": "text/html; charset=utf-8" }).end(text);
    }
  } catch (error) {
    console.error(error.message);
    response.writeHead(500).end("The webhooks cannot be shown at the moment.");
  }
});
server.listen(port, "localhost", () => console.log(`open ${own}`));
