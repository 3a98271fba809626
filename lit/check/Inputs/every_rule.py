"""Reads `meshseal explain --list` on stdin and the tests of a folder: each rule is refused and accepted somewhere."""

import pathlib
import re
import sys

texts = [path.read_text() for path in pathlib.Path(sys.argv[1]).iterdir() if path.suffix in (".yaml", ".test")]
missing = []
slugs = [line.split()[0] for line in sys.stdin if line.strip()]
for slug in slugs:
    refusals = [text for text in texts if re.search(r"# CHECK(-NEXT)?:.*error: .*\[" + re.escape(slug) + r"\]$", text, re.M)]
    if not any("# ACCEPTED: every rule holds" in text for text in refusals):
        missing.append(slug)
if missing or len(slugs) < 40:
    sys.exit(f"{len(slugs)} rules; without a refusal and an acceptance: {missing}")
print(f"{len(slugs)} rules, each refused and accepted")
