"""Signs requests with slack_sdk, Slack's own library for Python, and prints them as JSON.

    python3 -m pip install --target python -r requirements.txt
    PYTHONPATH=python python3 slack.py > slack.json
"""

import json
import sys

from slack_sdk.signature import Clock, SignatureVerifier
from slack_sdk.version import __version__

NOW = 1760000000
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
                "url": "https://relay.example.com/in/tok",
                "headers": headers,
                "body": body,
            }
        )
    out = {"libraries": {"slack_sdk": __version__}, "now": NOW, "vectors": vectors}
    json.dump(out, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
