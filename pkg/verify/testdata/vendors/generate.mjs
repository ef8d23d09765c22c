// Signs requests with the providers' own libraries, has each accepted by the library's own verifier, and prints them as JSON.
// Every input is fixed, so the output is too:
//
//     npm ci && npm run vectors
//
// The signatures in python.json come from libraries for Python (generate.py): Slack's Node library only verifies, and here
// it has to accept them; Twilio's knows no HMAC-SHA256.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

import * as github from "@octokit/webhooks-methods";
import "@shopify/shopify-api/adapters/node";
import { ApiVersion, shopifyApi } from "@shopify/shopify-api";
import { createSHA256HMAC } from "@shopify/shopify-api/runtime";
import { Webhook } from "svix";

const require = createRequire(import.meta.url);
const twilio = require("twilio");
const { isValidSlackRequest } = require("@slack/bolt");

const NOW = 1760000000; // seconds; 2025-10-09T08:53:20Z
Date.now = () => NOW * 1000; // the svix verifier checks the age and has no other clock

const HOOK = "https://relay.example.com/in/tok";
const vectors = [];
const add = (name, type, secret, headers, body, { url = HOOK, method = "POST" } = {}) =>
  vectors.push({ name, type, secret, method, url, headers, body });

const UNICODE = '{"text":"größe 寸法 📦","line":"a\\r\\nb"}\r\n';

async function signGitHub() {
  const secret = "It's a Secret to Everybody";
  const bodies = {
    ping: '{"zen":"Approachable is better than simple.","hook_id":30}',
    unicode: UNICODE,
    form: "payload=%7B%22action%22%3A%22opened%22%7D",
    greeting: "Hello, World!",
  };
  for (const [name, body] of Object.entries(bodies)) {
    const signature = await github.sign(secret, body);
    assert(await github.verify(secret, body, signature));
    add(`github/${name}`, "github", secret, { "X-GitHub-Event": "ping", "X-Hub-Signature-256": signature }, body);
  }
}

async function signShopify() {
  const secret = "hush_0123456789abcdef";
  const shopify = shopifyApi({
    apiKey: "key",
    apiSecretKey: secret,
    apiVersion: ApiVersion.October25,
    hostName: "relay.example.com",
    isEmbeddedApp: false,
    logger: { log: () => {} },
  });
  const bodies = { order: '{"id":820982911946154508,"email":"customer@example.com","total_price":"254.98"}', unicode: UNICODE };
  for (const [name, body] of Object.entries(bodies)) {
    const headers = {
      "X-Shopify-API-Version": ApiVersion.October25,
      "X-Shopify-Hmac-SHA256": await createSHA256HMAC(secret, body),
      "X-Shopify-Shop-Domain": "shop.example.com",
      "X-Shopify-Topic": "orders/create",
      "X-Shopify-Webhook-Id": "b54557e4-bdd9-4b37-8a5f-bf7d70bcd043",
    };
    const verdict = await shopify.webhooks.validate({ rawBody: body, rawRequest: { method: "POST", url: "/in/tok", headers } });
    assert(verdict.valid, verdict.reason);
    add(`shopify/${name}`, "shopify", secret, headers, body);
  }
}

// Twilio signs decoded parameters; what Express would hand the library is given here beside the raw body it came from.
function signTwilio() {
  const secret = "12345";
  const call = { CallSid: "CA1234567890ABCDE", Caller: "+14158675309", Digits: "1234", From: "+14158675309", To: "+18005551212" };
  const form = (params) =>
    Object.entries(params)
      .flatMap(([k, v]) => [v].flat().map((each) => new URLSearchParams([[k, each]]).toString()))
      .join("&");
  // signed: the spelling of the URL that went under the signature, where it is not the one that was called.
  const sign = (name, params, { url = HOOK, signed = url, body = form(params), method = "POST" } = {}) => {
    const signature = twilio.getExpectedTwilioSignature(secret, signed, params);
    assert(twilio.validateRequest(secret, signature, url, params), name);
    const headers = { "Content-Type": "application/x-www-form-urlencoded", "X-Twilio-Signature": signature };
    add(`twilio/${name}`, "twilio", secret, headers, body, { url, method });
  };
  sign("call", call);
  sign("query", call, { url: `${HOOK}?foo=1&bar=2` });
  sign("empty", {}, { body: "" });
  sign("get", {}, { url: `${HOOK}?CallSid=CA1&From=%2B14158675309`, method: "GET", body: "" });
  sign("values", { Body: "größe 寸法 & 1+1=2; 100% 'ok' *~", Empty: "", MessageSid: "SM1", media_url: "https://example.com/?a=b" });
  sign("repeated", { MultipleParam: ["b", "a", "b"], A: ["2", "10"], a: "z" });
  sign("percent20", { Body: "a b" }, { body: "Body=a%20b" });
  sign("port-signed", call, { signed: HOOK.replace(".com/", ".com:443/") });
  sign("port-called", call, { url: HOOK.replace(".com/", ".com:443/"), signed: HOOK });
  sign("odd-port", call, { url: HOOK.replace(".com/", ".com:8443/") });
  sign("odd-port-unsigned", call, { url: HOOK.replace(".com/", ".com:8443/"), signed: HOOK });
  sign("http", call, { url: HOOK.replace("https", "http"), signed: HOOK.replace("https", "http").replace(".com/", ".com:80/") });
  sign("legacy-query", call, { url: `${HOOK}?name=it%27s&x=a+b`, signed: `${HOOK}?name=it's&x=a%20b` });
  sign("legacy-query-odd-port", call, {
    url: `${HOOK.replace(".com/", ".com:8443/")}?q=%7Ebob&flag`,
    signed: `${HOOK.replace(".com/", ".com:8443/")}?q=~bob&flag=`,
  });

  for (const [name, body] of Object.entries({ json: '{"property": "value", "boolean": true}', "json-unicode": UNICODE })) {
    const url = `${HOOK}?foo=1&bodySHA256=${twilio.getExpectedBodyHash(body)}`;
    const signature = twilio.getExpectedTwilioSignature(secret, url, {});
    assert(twilio.validateRequestWithBody(secret, signature, url, body), name);
    add(`twilio/${name}`, "twilio", secret, { "Content-Type": "application/json", "X-Twilio-Signature": signature }, body, { url });
  }
}

function signStandardWebhooks() {
  const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
  const old = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
  const id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
  const at = new Date(NOW * 1000);
  const bodies = { contact: '{"type":"contact.created","data":{"id":"1f81eb52"}}', unicode: `{"text":${JSON.stringify(UNICODE)}}` };
  for (const [name, body] of Object.entries(bodies)) {
    const signature = new Webhook(secret).sign(id, at, body);
    const both = `v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5B ${new Webhook(old).sign(id, at, body)} ${signature}`;
    for (const [kind, prefix, list] of [["", "webhook", signature], ["-svix", "svix", signature], ["-rotating", "webhook", both]]) {
      const headers = { [`${prefix}-id`]: id, [`${prefix}-timestamp`]: String(NOW), [`${prefix}-signature`]: list };
      new Webhook(secret).verify(body, headers); // throws when refused
      add(`standard_webhooks/${name}${kind}`, "standard_webhooks", secret, headers, body);
    }
  }
}

function acceptSlack() {
  const { vectors } = JSON.parse(readFileSync(new URL("python.json", import.meta.url)));
  for (const { name, secret, headers, body } of vectors.filter(({ type }) => type === "slack")) {
    const request = {
      "x-slack-signature": headers["X-Slack-Signature"],
      "x-slack-request-timestamp": Number(headers["X-Slack-Request-Timestamp"]),
    };
    assert(isValidSlackRequest({ signingSecret: secret, body, headers: request, nowMilliseconds: NOW * 1000 }), name);
  }
}

await signGitHub();
await signShopify();
signTwilio();
signStandardWebhooks();
acceptSlack();

const { devDependencies: libraries } = JSON.parse(readFileSync(new URL("package.json", import.meta.url)));
process.stdout.write(JSON.stringify({ libraries, now: NOW, vectors }, null, 2) + "\n");
