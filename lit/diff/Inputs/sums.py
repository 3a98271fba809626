"""Reads the JSON of a diff, demands that every slot's bytes add up to both plans' memory, and prints them."""

import json
import sys

diff = json.load(sys.stdin)
for slot in diff["moves"]["slots"]:
    weights = slot["weights"]
    for plan, other in (("a", "dropped"), ("b", "received")):
        memory = slot["memory"][plan]
        assert weights["kept"] + weights[other] == (memory["weights"] if memory else 0), slot
    assert sum(source["bytes"] for source in slot["sources"]) + slot["from_checkpoint"] == weights["received"], slot
    print(slot["node"], slot["slot"], weights["kept"], weights["dropped"], weights["received"], slot["from_checkpoint"], slot["sent"])
slots = diff["moves"]["slots"]
assert sum(slot["sent"] for slot in slots) == sum(s["weights"]["received"] - s["from_checkpoint"] for s in slots), slots
for line in ("weights", "replicated"):
    for kind in ("kept", "dropped", "received"):
        assert diff["moves"][line][kind] == sum(slot[line][kind] for slot in diff["moves"]["slots"]), (line, kind)
print(diff["version"], diff["relation"], diff["moves"]["replicated"])
