"""Prints the JSON document of standard input with what fits into 150 columns on one line; nothing is left out."""

import json
import sys


def compact(value, prefix, indent):
    line = prefix + json.dumps(value)
    if len(indent) + len(line) <= 150 or not isinstance(value, (dict, list)):
        return [indent + line]
    items = value.items() if isinstance(value, dict) else ((None, item) for item in value)
    lines = [indent + prefix + ("{" if isinstance(value, dict) else "[")]
    for key, item in items:
        lines += compact(item, "" if key is None else json.dumps(key) + ": ", indent + "  ")
    return lines + [indent + ("}" if isinstance(value, dict) else "]")]


print("\n".join(compact(json.load(sys.stdin), "", "")))
