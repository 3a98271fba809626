"""Runs a command and demands an exit code and limits. Its output passes through.

bounded.py FACTOR CODE SECONDS MIB COMMAND [ARGUMENT...]

SECONDS are of processor time, MIB is the largest resident size; both are multiplied by FACTOR, which is above 1 for
instrumented programs. A command that sleeps is stopped after 10 x SECONDS.
"""

import resource
import subprocess
import sys

factor, code, seconds, mib = float(sys.argv[1]), int(sys.argv[2]), *map(float, sys.argv[3:5])
try:
    found = subprocess.run(sys.argv[5:], timeout=10 * factor * seconds).returncode
except subprocess.TimeoutExpired:
    sys.exit(f"bounded.py: no end after {10 * factor * seconds:g} s")
used = resource.getrusage(resource.RUSAGE_CHILDREN)
spent, largest = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
if found != code:
    sys.exit(f"bounded.py: expected exit {code}, found {found}")
if spent > factor * seconds:
    sys.exit(f"bounded.py: {spent:.2f} s of processor time, the limit is {factor * seconds:g}")
if largest > factor * mib:
    sys.exit(f"bounded.py: {largest:.0f} MiB, the limit is {factor * mib:g}")
