"""Fails when an operation refuses most of what schemathesis generates as allowed: then the document is laxer than the API.

Reads the NDJSON report of a run. What is answered 404 says nothing of the data: ids are generated too. The form of a body
is accepted if only an id in it names nothing, or if what it asks for cannot be done in the present state.
"""

import base64
import collections
import json
import re
import sys

LEAST = 0.5  # of the requests of an operation
FEW = 20  # fewer requests say nothing
TOO_SHORT = 3  # exit code: the same for a longer time



def accepts(response):
    """Whether the form of the data was accepted."""
    if response["status_code"] != 400:
        return response["status_code"] < 400
    try:
        error = json.loads(base64.b64decode(response["content"]["$base64"]))["error"]
    except ValueError:  # refused by net/http, before the API
        return False
    return error["type"] == "invalid_state" or re.search(r"_ids?(\[\d+\])?$", error.get("param", "")) is not None


answers = collections.defaultdict(collections.Counter)
for line in open(sys.argv[1], encoding="utf-8"):
    scenario = json.loads(line).get("ScenarioFinished")
    if not scenario or scenario["phase"] != "fuzzing":
        continue
    recorder = scenario["recorder"]
    cases = recorder.get("cases", {})
    for name, interaction in recorder.get("interactions", {}).items():  # none if the time ended before a request
        meta = cases.get(name, {}).get("value", {}).get("meta") or {}
        if meta.get("generation", {}).get("mode") == "positive" and interaction.get("response"):
            status = interaction["response"]["status_code"]
            answers[recorder["label"]][200 if accepts(interaction["response"]) else status] += 1

shares = {}
together = [0, 0]
for operation, statuses in answers.items():
    if operation.startswith("DELETE "):
        continue  # it takes ids only; the last destination of an endpoint cannot be deleted
    accepted, refused = sum(n for status, n in statuses.items() if status < 400), statuses[400]
    together = [together[0] + accepted, together[1] + refused]
    if accepted + refused >= FEW:
        shares[operation] = accepted / (accepted + refused)
if sum(together) < FEW:
    print("the report has too few generated requests")
    sys.exit(TOO_SHORT)
if not shares:  # on a busy machine no operation may reach FEW
    shares["all operations together"] = together[0] / sum(together)
for operation, share in sorted(shares.items(), key=lambda x: x[1])[:3]:
    print(f"{operation} accepts {share:.0%} of what the document allows")
if min(shares.values()) < LEAST:
    sys.exit("the document must say more of what the API refuses")
