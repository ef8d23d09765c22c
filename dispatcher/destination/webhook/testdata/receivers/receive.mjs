// Reads deliveries from stdin, as JSON, and prints what the library of a receiver makes of each: a line of the event, "ok",
// or "refused".
import { createHmac, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";
import { HTTP } from "cloudevents";
import Stripe from "stripe";
import { verify } from "@octokit/webhooks-methods";
import { Webhook } from "svix";

const stripe = new Stripe("sk_test_unused");
const equal = (a, b) => a.length === b.length && timingSafeEqual(Buffer.from(a), Buffer.from(b));
const mac = (secret, body, encoding) => createHmac("sha256", secret).update(body).digest(encoding);

const line = (e) => {
  const data = e.data_base64 ?? (Buffer.isBuffer(e.data) || e.data instanceof Uint8Array
    ? Buffer.from(e.data).toString("base64") : JSON.stringify(e.data));
  return [e.id, e.source, e.type, new Date(e.time).getTime(), e.datacontenttype, data].join("|");
};

const libraries = {
  stripe: (d) => void stripe.webhooks.constructEvent(d.body, d.headers["stripe-signature"], d.secret),
  svix: (d) => void new Webhook(d.secret).verify(d.body, d.headers),
  github: async (d) => {
    if (!(await verify(d.secret, d.body, d.headers["x-hub-signature-256"]))) throw new Error("refused");
  },
  // No library is published: https://hookdeck.com/docs/authentication, the base64 of HMAC-SHA256 over the body.
  hookdeck: (d) => {
    if (!equal(mac(d.secret, d.body, "base64"), d.headers["x-hookdeck-signature"])) throw new Error("refused");
  },
  // No library is published: hookdeck/outpost, DefaultSignatureHeaderTmpl, v0= and a list of hex HMAC-SHA256 of the body.
  outpost: (d) => {
    const signatures = d.headers["x-outpost-signature"].replace(/^v0=/, "").split(",");
    if (!signatures.some((s) => equal(mac(d.secret, d.body, "hex"), s))) throw new Error("refused");
  },
  cloudevents: (d) => [HTTP.toEvent({ headers: d.headers, body: d.body })].flat().map(line).join(" "),
};

const answers = [];
for (const d of JSON.parse(readFileSync(0, "utf8"))) {
  try {
    answers.push((await libraries[d.library](d)) ?? "ok");
  } catch (e) {
    answers.push(process.env.VERBOSE ? String(e) : "refused");
  }
}
console.log(JSON.stringify(answers));
