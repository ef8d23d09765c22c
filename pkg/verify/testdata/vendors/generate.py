"""Signs requests with Slack's and Twilio's own libraries for Python, and prints them as JSON.

    python3 -m pip install --target python -r requirements.txt
    PYTHONPATH=python python3 generate.py > python.json
"""

import json
import sys
import urllib.parse

from slack_sdk.signature import Clock, SignatureVerifier
from slack_sdk.version import __version__ as slack_version
from twilio import __version__ as twilio_version
from twilio.request_validator import SIGNATURE_HEADER, SIGNATURE_SETTINGS_HEADER, RequestValidator, get_signature_algorithm

NOW = 1760000000
HOOK = "https://relay.example.com/in/tok"
SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
BODIES = {
    "event": '{"token":"z26uFbvR1xHJEdHE1OQiO6t8","team_id":"T061EG9RZ","type":"event_callback",'
    '"event":{"type":"reaction_added","user":"U061F7AUR","reaction":"slightly_smiling_face"},"event_time":1759999999}',
    "unicode": '{"type":"event_callback","event":{"type":"message","text":"größe 寸法 📦\\u2028"}}',
    "command": "token=gIkuvaNzQIHg97ATvDxqgjtO&team_id=T0001&command=%2Fweather&text=94070+tomorrow&response_url=https%3A%2F%2Fexample.com",
    "empty": "",
}


class Fixed(Clock):
    def now(self) -> float:
        return NOW


# Each form with the settings of its signature: those of a shared key, or none for the account's auth token.
SHARED_KEY = "key=webhooks_sharedkey_01k7000000e00000000000000,algorithm="
FORMS = {
    "sha256": ([("CallSid", "CA1"), ("From", "+14158675309"), ("Body", "größe 寸法 & 1+1=2")], SHARED_KEY + "HMAC_SHA256"),
    "sha256-lower": ([("Body", "x")], " algorithm = hmac_sha256 , key=k"),
    "sha256-repeated": ([("A", "2"), ("A", "10"), ("A", "2"), ("a", "z")], SHARED_KEY + "HMAC_SHA256"),
    "sha256-empty": ([], SHARED_KEY + "HMAC_SHA256"),
    "sha1": ([("Body", "x")], SHARED_KEY + "HMAC_SHA1"),
    "default": ([("Body", "x")], "key=k,algorithm="),
    "token": ([("Body", "x")], None),
}


class Form(list):
    def __iter__(self):
        return iter(dict(list.copy(self)))

    def getlist(self, name: str) -> list:
        return [value for key, value in list.copy(self) if key == name]


def sign_twilio() -> list:
    secret = "a shared key's secret"
    validator = RequestValidator(secret)
    vectors = []

    def add(name: str, url: str, signed: str, params, body: str, settings) -> None:
        algorithm = get_signature_algorithm(settings)
        signature = validator.compute_signature(signed, {} if isinstance(params, str) else params, algorithm)
        if not validator.validate(url, params, signature, algorithm):
            sys.exit(f"twilio refuses its own signature of {name}")
        headers = {SIGNATURE_HEADER: signature} | ({SIGNATURE_SETTINGS_HEADER: settings} if settings else {})
        vectors.append(
            {"name": f"twilio/{name}", "type": "twilio", "secret": secret, "method": "POST", "url": url, "headers": headers, "body": body}
        )

    for name, (params, settings) in FORMS.items():
        add(name, HOOK, HOOK, Form(params), urllib.parse.urlencode(params), settings)
    port = HOOK.replace(".com/", ".com:443/")
    add("sha256-port-signed", HOOK, port, Form([("a", "b")]), "a=b", SHARED_KEY + "HMAC_SHA256")
    add("sha256-port-called", port, HOOK, Form([("a", "b")]), "a=b", SHARED_KEY + "HMAC_SHA256")
    body = '{"größe": "📦"}'
    url = f"{HOOK}?foo=1&bodySHA256={validator.compute_hash(body)}"
    add("sha256-json", url, url, body, body, SHARED_KEY + "HMAC_SHA256")
    return vectors


def main() -> None:
    verifier = SignatureVerifier(SECRET, Fixed())
    vectors = []
    for name, body in BODIES.items():
        headers = {
            "X-Slack-Request-Timestamp": str(NOW),
            "X-Slack-Signature": verifier.generate_signature(timestamp=str(NOW), body=body),
        }
        if not verifier.is_valid_request(body, headers):
            sys.exit(f"slack_sdk refuses its own signature of {name}")
        vectors.append(
            {
                "name": f"slack/{name}",
                "type": "slack",
                "secret": SECRET,
                "method": "POST",
                "url": HOOK,
                "headers": headers,
                "body": body,
            }
        )
    out = {"libraries": {"slack_sdk": slack_version, "twilio": twilio_version}, "now": NOW, "vectors": vectors + sign_twilio()}
    json.dump(out, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
