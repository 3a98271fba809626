"""Reads `meshseal explain --list` on stdin: each rule is refused and accepted in a test of the folder, and each slug that the
compiler reports is a rule: every_rule.py TESTS COMPILER."""

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
sources = [path.read_text() for path in pathlib.Path(sys.argv[2]).rglob("*.cc")]
reported = {slug for text in sources for slug in re.findall(r'Error\(\s*"([a-z-]+)"', text)}
unlisted = sorted(reported - set(slugs))
if missing or unlisted or len(slugs) < 40 or len(reported) < 5:
    sys.exit(f"{len(slugs)} rules; without a refusal and an acceptance: {missing}; reported and not in the table: {unlisted}")
print(f"{len(slugs)} rules, each refused and accepted")
