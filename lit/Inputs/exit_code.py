"""Runs a command and demands an exit code: exit_code.py CODE COMMAND [ARGUMENT...]. Its output passes through."""

import subprocess
import sys

found = subprocess.run(sys.argv[2:]).returncode
if found != int(sys.argv[1]):
    sys.exit(f"expected exit {sys.argv[1]}, found {found}: {' '.join(sys.argv[2:])}")
