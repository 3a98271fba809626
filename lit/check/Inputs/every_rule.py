"""Reads `meshseal explain --list` on stdin: each rule is refused, or warned of, and accepted in a test of the folder, and each
slug that the compiler reports is a rule: every_rule.py TESTS COMPILER."""

import pathlib
import re
import sys

texts = [path.read_text() for path in pathlib.Path(sys.argv[1]).iterdir() if path.suffix in (".yaml", ".test")]
sources = [path.read_text() for path in pathlib.Path(sys.argv[2]).rglob("*.cc")]
reported = {kind: {slug for text in sources for slug in re.findall(kind + r'\(\s*"([a-z-]+)"', text)} for kind in ("Error", "Warning")}
slugs = [line.split()[0] for line in sys.stdin if line.strip()]
missing = []
for slug in slugs:
    word = "warning" if slug in reported["Warning"] else "error"
    told = [text for text in texts if re.search(r"# CHECK(-NEXT)?:.*" + word + r": .*\[" + re.escape(slug) + r"\]$", text, re.M)]
    if not any("# ACCEPTED: every rule holds" in text for text in told):
        missing.append(slug)
unlisted = sorted((reported["Error"] | reported["Warning"]) - set(slugs))
if missing or unlisted or len(slugs) < 40 or len(reported["Error"]) < 5 or len(reported["Warning"]) < 1:
    sys.exit(f"{len(slugs)} rules; untold or never accepted: {missing}; reported and not in the table: {unlisted}")
print(f"{len(slugs)} rules, each refused or warned of, and accepted")
