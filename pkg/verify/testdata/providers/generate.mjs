// Signs requests as the providers do, has each accepted by the provider's own library, and prints them as JSON.
//
//     npm ci && npm run vectors
//
// "source" names the library. Where no library verifies webhooks it names the provider's own code or page, and the vector
// is made here in that form. go/ has the libraries for Go. Signatures by a key of the provider are made once: the keys are
// thrown away, and later runs only have the library accept what vectors.json has.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import crypto from "node:crypto";
import { EventEmitter } from "node:events";
import { existsSync, mkdtempSync, readFileSync } from "node:fs";
import https from "node:https";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Readable } from "node:stream";

const NOW = 1760000000; // seconds; 2025-10-09T08:53:20Z
const Real = Date;
globalThis.Date = class extends Real {
  constructor(...args) {
    super(...(args.length ? args : [NOW * 1000]));
  }
  static now() {
    return NOW * 1000;
  }
};

const require = createRequire(import.meta.url);
const { devDependencies: libraries } = require("./package.json");
const HOOK = "https://relay.example.com/in/tok";
const ISO = "2025-10-09T08:53:20Z";
const TEXT = "größe 寸法 📦 </>&";
const file = new URL("vectors.json", import.meta.url);
const made = existsSync(file) ? JSON.parse(readFileSync(file)).vectors : [];
const vectors = [];

const hmac = (algorithm, key, text, encoding) => crypto.createHmac(algorithm, key).update(text).digest(encoding);
const add = (type, source, secret, headers, body, { name = "json", url = HOOK, certificate } = {}) => {
  const library = libraries[source.split(" ")[0]];
  vectors.push({
    name: `${type}/${name}`, type, secret, method: "POST", url, headers, body,
    source: library ? source.replace(" ", ` ${library} `).trim() : source, ...(certificate && { certificate }),
  });
};
// accepts checks that a library accepts a body, and refuses it when one byte is added.
const accepts = async (verify, body) => {
  const ok = async (text) => {
    try {
      return (await verify(text)) !== false;
    } catch (error) {
      if (process.env.DEBUG) console.error(error);
      return false;
    }
  };
  assert(await ok(body), `${verify} refuses its own signature`);
  assert(!(await ok(body.replace("{", "{ "))) , `${verify} accepts another body`);
};

const random = (seed) => crypto.createHash("sha256").update(seed).digest("hex");

async function standard() {
  const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
  const { verifyWebhook } = await import("@clerk/backend/webhooks");
  const { default: OpenAI } = await import("openai");
  const { Resend } = await import("resend");
  const { validateWebhook } = require("replicate");
  const { WebhookHandler } = await import("@liveblocks/node");
  const standard = await import("standardwebhooks");
  const svix = await import("svix");
  const each = {
    clerk: ["svix", "@clerk/backend (verifyWebhook)", (body, headers) => verifyWebhook(new Request(HOOK, { method: "POST", headers, body }), { signingSecret: secret })],
    liveblocks: ["webhook", "@liveblocks/node (WebhookHandler)", (rawBody, headers) => new WebhookHandler(secret).verifyRequest({ headers, rawBody })],
    openai: ["webhook", "openai (webhooks.verifySignature)", (body, headers) => new OpenAI({ apiKey: "sk-sample" }).webhooks.verifySignature(body, headers, secret)],
    replicate: ["webhook", "replicate (validateWebhook)", (body, headers) => validateWebhook({ body, headers }, secret)],
    resend: ["svix", "resend (webhooks.verify)", (payload, h) => new Resend("re_sample").webhooks.verify({ payload, headers: { id: h["svix-id"], timestamp: h["svix-timestamp"], signature: h["svix-signature"] }, webhookSecret: secret })],
    supabase: ["webhook", "standardwebhooks (Webhook.verify)", (body, headers) => new standard.Webhook(secret).verify(body, headers)],
    svix: ["svix", "svix (Webhook.verify)", (body, headers) => new svix.Webhook(secret).verify(body, headers)],
  };
  for (const [type, [prefix, source, verify]] of Object.entries(each)) {
    const body = JSON.stringify(type === "liveblocks" ? { type: "storageUpdated", data: { projectId: "sample", roomId: TEXT, updatedAt: ISO } } : { type: "user.created", data: { id: "1", name: TEXT } });
    const signature = hmac("sha256", Buffer.from(secret.slice(6), "base64"), `msg_1.${NOW}.${body}`, "base64");
    const headers = { [`${prefix}-id`]: "msg_1", [`${prefix}-timestamp`]: String(NOW), [`${prefix}-signature`]: `v1,${signature}` };
    await accepts((text) => verify(text, headers), body);
    add(type, source, type === "supabase" ? `v1,${secret}` : secret, headers, body);
  }
}

// own are the providers with a scheme of their own and a library that verifies it.
async function own() {
  const body = JSON.stringify({ event: "sample", event_type: "sample", id: "1", text: TEXT });
  const secret = random("secret");
  const sign = async (type, source, key, headers, verify, text = body) => {
    await accepts((changed) => verify(changed, headers), text);
    add(type, source, key, headers, text);
  };

  const { Signature } = require("@hubspot/api-client/lib/src/utils/signature.js");
  const stamp = String(NOW * 1000);
  await sign("hubspot", "@hubspot/api-client (Signature.isValid)", secret,
    { "X-HubSpot-Signature-v3": hmac("sha256", secret, `POST${HOOK}${body}${stamp}`, "base64"), "X-HubSpot-Request-Timestamp": stamp },
    (requestBody, h) => Signature.isValid({ signatureVersion: "v3", signature: h["X-HubSpot-Signature-v3"], timestamp: Number(stamp), method: "POST", clientSecret: secret, requestBody, url: HOOK }));

  const { WebhooksHelper } = require("square");
  await sign("square", "square (WebhooksHelper.verifySignature)", secret, { "x-square-hmacsha256-signature": hmac("sha256", secret, HOOK + body, "base64") },
    (requestBody, h) => WebhooksHelper.verifySignature({ requestBody, signatureHeader: h["x-square-hmacsha256-signature"], signatureKey: secret, notificationUrl: HOOK }));

  const { LinearWebhookClient } = await import("@linear/sdk/webhooks");
  const issue = JSON.stringify({ action: "update", type: "Issue", data: { title: TEXT }, webhookTimestamp: NOW * 1000 });
  await sign("linear", "@linear/sdk (LinearWebhookClient)", secret, { "Linear-Signature": hmac("sha256", secret, issue, "hex") },
    (text, h) => new LinearWebhookClient(secret).verify(Buffer.from(text), h["Linear-Signature"]), issue);

  const { Paddle } = require("@paddle/paddle-node-sdk");
  await sign("paddle", "@paddle/paddle-node-sdk (webhooks.isSignatureValid)", secret, { "Paddle-Signature": `ts=${NOW};h1=${hmac("sha256", secret, `${NOW}:${body}`, "hex")}` },
    (text, h) => new Paddle("pdl_sdbx_apikey_sample").webhooks.isSignatureValid(text, secret, h["Paddle-Signature"]));

  const Razorpay = require("razorpay");
  await sign("razorpay", "razorpay (validateWebhookSignature)", secret, { "X-Razorpay-Signature": hmac("sha256", secret, body, "hex") },
    (text, h) => Razorpay.validateWebhookSignature(text, h["X-Razorpay-Signature"], secret));

  const { Webhook } = require("coinbase-commerce-node");
  await sign("coinbase_commerce", "coinbase-commerce-node (Webhook.verifySigHeader)", secret, { "X-CC-Webhook-Signature": hmac("sha256", secret, body, "hex") },
    (text, h) => Webhook.verifySigHeader(text, h["X-CC-Webhook-Signature"], secret));

  const notion = require("@notionhq/client");
  await sign("notion", "@notionhq/client (verifyWebhookSignature)", secret, { "X-Notion-Signature": `sha256=${hmac("sha256", secret, body, "hex")}` },
    (text, h) => notion.verifyWebhookSignature({ body: text, signature: h["X-Notion-Signature"], verificationToken: secret }));

  const { default: Mux } = await import("@mux/mux-node");
  await sign("mux", "@mux/mux-node (webhooks.verifySignature)", secret, { "Mux-Signature": `t=${NOW},v1=${hmac("sha256", secret, `${NOW}.${body}`, "hex")}` },
    (text, headers) => new Mux({ tokenId: "a", tokenSecret: "b" }).webhooks.verifySignature(text, headers, secret));

  const { WorkOS } = require("@workos-inc/node");
  await sign("workos", "@workos-inc/node (webhooks.verifyHeader)", secret, { "WorkOS-Signature": `t=${stamp}, v1=${hmac("sha256", secret, `${stamp}.${body}`, "hex")}` },
    (text, h) => new WorkOS("sk_sample").webhooks.verifyHeader({ payload: text === body ? JSON.parse(text) : { changed: text }, sigHeader: h["WorkOS-Signature"], secret }));

  const { validateSignature } = await import("@line/bot-sdk");
  await sign("line", "@line/bot-sdk (validateSignature)", secret, { "X-Line-Signature": hmac("sha256", secret, body, "base64") },
    (text, h) => validateSignature(text, secret, h["X-Line-Signature"]));

  // Version 0.0.5-Alpha is Meta's. Version 1.0.0 of this package is somebody else's, and empty.
  const { generateXHub256Sig } = require(join(dirname(require.resolve("whatsapp/package.json")), "build/utils.js"));
  await sign("meta", "whatsapp (generateXHub256Sig)", secret, { "X-Hub-Signature-256": `sha256=${hmac("sha256", secret, body, "hex")}` },
    (text, h) => h["X-Hub-Signature-256"] === `sha256=${generateXHub256Sig(text, secret)}`);

  const { AwsLambdaReceiver } = await import("@zoom/rivet/marketplace");
  const meeting = JSON.stringify({ event: "meeting.started", event_ts: NOW * 1000, payload: { object: { topic: TEXT } } });
  const zoom = new AwsLambdaReceiver({ webhooksSecretToken: secret });
  zoom.init({ eventEmitter: new EventEmitter() });
  console.debug = () => {};
  await sign("zoom", "@zoom/rivet (AwsLambdaReceiver)", secret, { "x-zm-signature": `v0=${hmac("sha256", secret, `v0:${NOW}:${meeting}`, "hex")}`, "x-zm-request-timestamp": String(NOW) },
    async (text, headers) => (await zoom.start()({ body: text.replace("{ ", '{"x":1,'), headers, isBase64Encoded: false }, {})).statusCode === 200, meeting);

  const { basicAuthValidator } = require("chargebee");
  const login = { Authorization: `Basic ${Buffer.from("relay:pässword").toString("base64")}` };
  await basicAuthValidator((user, password) => user === "relay" && password === "pässword")({ authorization: login.Authorization });
  add("chargebee", "chargebee (basicAuthValidator)", "relay:pässword", login, body);

  const { hmacValidator } = require("@adyen/api-library");
  const item = { amount: { currency: "EUR", value: 1130 }, eventCode: "AUTHORISATION", eventDate: "2025-10-09T08:53:20+00:00", merchantAccountCode: "Sample", merchantReference: TEXT, pspReference: "7914073381342284", reason: "", success: "true" };
  const signature = new hmacValidator().calculateHmac(item, secret);
  item.additionalData = { hmacSignature: signature };
  assert(new hmacValidator().validateHMAC(item, secret));
  add("adyen", "@adyen/api-library (hmacValidator)", secret, {}, JSON.stringify({ live: "false", notificationItems: [{ NotificationRequestItem: item }] }));
}

// pages are the providers without a library that verifies webhooks.
function pages() {
  const body = JSON.stringify({ type: "sample", event: "sample", text: TEXT });
  const secret = random("page");
  const mac = (text, encoding = "hex", algorithm = "sha256") => hmac(algorithm, secret, text, encoding);
  const millis = String(NOW * 1000);
  add("airwallex", "made here in the form of https://www.airwallex.com/docs/developer-tools/webhooks/listen-for-webhook-events", secret, { "x-timestamp": millis, "x-signature": mac(millis + body) }, body);
  add("cal_com", "made here in the form of calcom/cal.com, createWebhookSignature in packages/features/webhooks/lib/sendPayload.ts", secret, { "X-Cal-Signature-256": mac(body) }, body);
  add("calendly", "made here in the form of https://developer.calendly.com/api-docs/overview/webhooks/webhook-signatures", secret, { "Calendly-Webhook-Signature": `t=${NOW},v1=${mac(`${NOW}.${body}`)}` }, body);
  add("docusign", "made here in the form of https://developers.docusign.com/platform/webhooks/connect/validate", secret, { "X-DocuSign-Signature-1": mac(body, "base64") }, body);
  add("intercom", "made here in the form of https://developers.intercom.com/intercom-api-reference/v1.0/reference/signed-notifications and intercom-archive/intercom-webhooks", secret, { "X-Hub-Signature": `sha1=${mac(body, "hex", "sha1")}` }, body);
  add("jira", "made here in the form of https://confluence.atlassian.com/adminjiraserver/managing-webhooks-938846912.html", secret, { "X-Hub-Signature": `sha256=${mac(body)}` }, body);
  add("sentry", "made here in the form of https://docs.sentry.io/organization/integrations/integration-platform/webhooks/", secret, { "Sentry-Hook-Signature": mac(body), "Sentry-Hook-Timestamp": String(NOW) }, body);
  add("twitch", "made here in the form of https://dev.twitch.tv/docs/eventsub/handling-webhook-events/", secret, { "Twitch-Eventsub-Message-Id": "e76c6bd4", "Twitch-Eventsub-Message-Timestamp": "2025-10-09T08:53:20.000000000Z", "Twitch-Eventsub-Message-Signature": `sha256=${mac(`e76c6bd42025-10-09T08:53:20.000000000Z${body}`)}` }, body);
  add("typeform", "made here in the form of https://www.typeform.com/developers/webhooks/secure-your-webhooks/", secret, { "Typeform-Signature": `sha256=${mac(body, "base64")}` }, body);
  add("vercel", "made here in the form of https://vercel.com/docs/webhooks and vercel/example-marketplace-integration, app/webhook/route.ts", secret, { "x-vercel-signature": mac(body, "hex", "sha1") }, body);
  add("woocommerce", "made here in the form of woocommerce/woocommerce, generate_signature in plugins/woocommerce/includes/class-wc-webhook.php", secret, { "X-WC-Webhook-Signature": mac(body, "base64") }, body);
  add("xero", "made here in the form of https://developer.xero.com/documentation/webhooks/configuring-your-server and XeroAPI/XeroWebhooksReceiver, SignatureVerifier", secret, { "x-xero-signature": mac(body, "base64") }, body);
  add("zendesk", "made here in the form of https://developer.zendesk.com/documentation/webhooks/verifying/", secret, { "X-Zendesk-Webhook-Signature": mac(ISO + body, "base64"), "X-Zendesk-Webhook-Signature-Timestamp": ISO }, body);
  add("gitlab", "made here in the form of https://docs.gitlab.com/user/project/integrations/webhooks/", secret, { "X-Gitlab-Token": secret }, body);
  add("figma", "made here in the form of https://developers.figma.com/docs/rest-api/webhooks-security/", secret, {}, JSON.stringify({ event_type: "PING", passcode: secret, text: TEXT }));
  add("postmark", "made here in the form of https://postmarkapp.com/developer/webhooks/webhooks-overview", "relay:password", { Authorization: `Basic ${Buffer.from("relay:password").toString("base64")}` }, body);
  // Atlassian's example: the key, the text and the signature.
  const [key, hello, printed] = ["It's a Secret to Everybody", "Hello World!", { "X-Hub-Signature": "sha256=a4771c39fbe90f317c7824e83ddef3caae9cb3d976c214ace1f2937e133263c9" }];
  add("bitbucket", "printed in https://support.atlassian.com/bitbucket-cloud/docs/manage-webhooks/, as others quote it", key, printed, hello, { name: "printed" });
  add("jira", "printed in https://developer.atlassian.com/cloud/jira/platform/webhooks/, as others quote it", key, printed, hello, { name: "printed" });
}

// goLibraries are verified by go/main.go.
function goLibraries() {
  const secret = random("go");
  const body = JSON.stringify({ event: { event_type: "incident.triggered", title: TEXT } });
  add("pagerduty", "github.com/PagerDuty/go-pagerduty v1.8.0 (webhookv3.VerifySignature)", secret, { "X-PagerDuty-Signature": `v1=${random("old")},v1=${hmac("sha256", secret, body, "hex")}` }, body, { name: "json-rotating" });
  const token = random("token").slice(0, 50);
  add("mailgun", "github.com/mailgun/mailgun-go v4.23.0 (VerifyWebhookSignature)", secret, {}, JSON.stringify({ signature: { timestamp: String(NOW), token, signature: hmac("sha256", secret, `${NOW}${token}`, "hex") }, "event-data": { event: "delivered", id: "1" } }));
}

async function publicKeys() {
  const body = JSON.stringify({ type: 1, text: TEXT });
  const once = (type, make) => made.filter((v) => v.type === type).length ? made.filter((v) => v.type === type) : [make()].flat();
  const keep = (found, source) => found.forEach((v) => add(v.type, source, v.secret, v.headers, v.body, { name: v.name.split("/")[1], certificate: v.certificate }));
  const raw = (key, encoding) => key.export({ type: "spki", format: "der" }).subarray(-32).toString(encoding);

  const [discord] = once("discord", () => {
    const { publicKey, privateKey } = crypto.generateKeyPairSync("ed25519");
    return { type: "discord", name: "discord/json", secret: raw(publicKey, "hex"), body,
      headers: { "X-Signature-Timestamp": String(NOW), "X-Signature-Ed25519": crypto.sign(null, Buffer.from(NOW + body), privateKey).toString("hex") } };
  });
  const { verifyKey } = require("discord-interactions");
  await accepts((text) => verifyKey(text, discord.headers["X-Signature-Ed25519"], discord.headers["X-Signature-Timestamp"], discord.secret), discord.body);
  keep([discord], "discord-interactions (verifyKey)");

  const [telnyx] = once("telnyx", () => {
    const { publicKey, privateKey } = crypto.generateKeyPairSync("ed25519");
    return { type: "telnyx", name: "telnyx/json", secret: raw(publicKey, "base64"), body,
      headers: { "telnyx-timestamp": String(NOW), "telnyx-signature-ed25519": crypto.sign(null, Buffer.from(`${NOW}|${body}`), privateKey).toString("base64") } };
  });
  const { TelnyxWebhook } = require("telnyx/lib/webhooks.js");
  await accepts((text) => new TelnyxWebhook(telnyx.secret).verify(text, telnyx.headers), telnyx.body);
  keep([telnyx], "telnyx (TelnyxWebhook)");

  const [sendgrid] = once("sendgrid", () => {
    const { publicKey, privateKey } = crypto.generateKeyPairSync("ec", { namedCurve: "P-256" });
    return { type: "sendgrid", name: "sendgrid/json", secret: publicKey.export({ type: "spki", format: "der" }).toString("base64"), body,
      headers: { "X-Twilio-Email-Event-Webhook-Timestamp": String(NOW), "X-Twilio-Email-Event-Webhook-Signature": crypto.sign("sha256", Buffer.from(NOW + body), privateKey).toString("base64") } };
  });
  const { EventWebhook } = require("@sendgrid/eventwebhook");
  const hook = new EventWebhook();
  await accepts((text) => hook.verifySignature(hook.convertPublicKeyToECDSA(sendgrid.secret), text, sendgrid.headers["X-Twilio-Email-Event-Webhook-Signature"], String(NOW)), sendgrid.body);
  keep([sendgrid], "@sendgrid/eventwebhook (verifySignature)");

  const certificate = () => {
    const dir = mkdtempSync(join(tmpdir(), "cert"));
    execFileSync("openssl", ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3650", "-subj", "/CN=sample", "-keyout", join(dir, "key"), "-out", join(dir, "cert")], { stdio: "ignore" });
    return { key: readFileSync(join(dir, "key")), cert: readFileSync(join(dir, "cert"), "utf8") };
  };
  const messages = once("sns", () => {
    const { key, cert } = certificate();
    const base = { MessageId: "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324", TopicArn: "arn:aws:sns:eu-central-1:123456789012:sample", Timestamp: "2025-10-09T08:53:20.000Z", SigningCertURL: "https://sns.eu-central-1.amazonaws.com/SimpleNotificationService-9c6465fa7f48f5cacd23014631ec1136.pem" };
    const kinds = {
      json: { Type: "Notification", Message: TEXT, SignatureVersion: "1" },
      subject: { Type: "Notification", Message: TEXT + "\n", Subject: "Sample", SignatureVersion: "2" },
      confirmation: { Type: "SubscriptionConfirmation", Message: "You have chosen to subscribe.", Token: "2336412f37fb687f", SubscribeURL: "https://sns.eu-central-1.amazonaws.com/?Action=ConfirmSubscription&TopicArn=arn:aws:sns:eu-central-1:123456789012:sample&Token=2336412f37fb687f", SignatureVersion: "1" },
    };
    return Object.entries(kinds).map(([name, kind]) => {
      const message = { ...base, ...kind };
      const text = ["Message", "MessageId", "Subject", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"].filter((k) => k in message).map((k) => `${k}\n${message[k]}\n`).join("");
      message.Signature = crypto.sign(kind.SignatureVersion === "1" ? "sha1" : "sha256", Buffer.from(text), key).toString("base64");
      return { type: "sns", name: `sns/${name}`, secret: base.TopicArn, headers: {}, body: JSON.stringify(message), certificate: cert };
    });
  });
  const Validator = require("sns-validator");
  https.get = (_, answer) => {
    const response = Readable.from([messages[0].certificate]);
    response.statusCode = 200;
    answer(response);
    return response;
  };
  for (const { body } of messages) {
    const verify = (text) => new Promise((resolve) => new Validator().validate(text, (error) => resolve(!error)));
    assert(await verify(body));
    assert(!(await verify(body.replace("größe", "grösse").replace("chosen", "Chosen"))));
  }
  keep(messages, "sns-validator (validate)");

  const [paypal] = once("paypal", () => {
    const { key, cert } = certificate();
    const event = JSON.stringify({ id: "WH-1", event_type: "PAYMENT.CAPTURE.COMPLETED", text: TEXT });
    const secret = "4JH86294D6297924G";
    const crc = Number(execFileSync("python3", ["-c", "import sys,zlib; print(zlib.crc32(sys.stdin.buffer.read()) & 0xffffffff)"], { input: event }));
    return { type: "paypal", name: "paypal/json", secret, body: event, certificate: cert, headers: {
      "paypal-auth-algo": "SHA256withRSA", "paypal-cert-url": "https://api.paypal.com/v1/notifications/certs/CERT-360caa42-fca2a594-1d93a270",
      "paypal-transmission-id": "69cd13f0-d67a-11e5-baa3-778b53f4ae55", "paypal-transmission-time": ISO,
      "paypal-transmission-sig": crypto.sign("sha256", Buffer.from(`69cd13f0-d67a-11e5-baa3-778b53f4ae55|${ISO}|${secret}|${crc}`), key).toString("base64") } };
  });
  keep([paypal], "https://developer.paypal.com/api/rest/webhooks/rest/; the signed text as in paypalrestsdk 1.13.3 (WebhookEvent)");
}

await standard();
await own();
pages();
goLibraries();
await publicKeys();
vectors.sort((a, b) => (a.name < b.name ? -1 : 1));
process.stdout.write(JSON.stringify({ now: NOW, vectors }, null, 2) + "\n");
