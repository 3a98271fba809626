"""Reads a refusal on stdin and compiles each of the degrees that its help lists, up to the memory plan: all must pass.

degrees_pass.py COMPILER DEPLOYMENT
"""

import re
import subprocess
import sys

listed = set()
for line in sys.stdin:
    if line.lstrip().startswith("help: degrees"):
        listed.update(re.findall(r"dp=(\d+) pp=(\d+) tp=(\d+) ep=(\d+)(?: dense\.tp=(\d+))?", line))
if not listed:
    sys.exit("degrees_pass.py: no help lists degrees")
for dp, pp, tp, ep, dense_tp in sorted(listed):
    flags = ["--dp", dp, "--pp", pp, "--tp", tp, "--ep", ep, "--dense-tp", dense_tp or str(int(tp) * int(ep))]
    command = [sys.argv[1], "compile", sys.argv[2], *flags, "--stop-after", "budget"]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"degrees_pass.py: {' '.join(flags)} is listed and refused:\n{run.stderr}")
