"""Imports a tiny checkpoint of each family that write-checkpoint knows and compares what comes out, whole, with FAMILY.yaml
beside this file: compare_import.py MESHSEAL ROOT FOLDER [--shards N]. The version in the first line is left out.
"""

import difflib
import glob
import os
import re
import subprocess
import sys

meshseal, root, folder, *flags = sys.argv[1:]
here = os.path.dirname(os.path.abspath(__file__))
write_checkpoint = os.path.join(root, "tools", "dev", "write-checkpoint")


def said(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}"
    return done.stdout


families = said(sys.executable, write_checkpoint, "--list").split()
expected_files = {os.path.basename(path)[:-5] for path in glob.glob(os.path.join(here, "*.yaml"))}
assert expected_files == set(families), expected_files ^ set(families)
different = 0
for family in families:
    checkpoint = os.path.join(folder, "tiny-" + family)
    said(sys.executable, write_checkpoint, family, checkpoint, *flags)
    files = sorted(glob.glob(os.path.join(checkpoint, "*.gguf")))
    manifest = os.path.join(folder, family + ".yaml")
    said(meshseal, "import", *(["gguf", *files] if files else ["hf", checkpoint]), "-o", manifest)
    said(meshseal, "check", manifest)
    with open(manifest, encoding="utf-8") as file:
        found = re.sub(r"(-00001-of-\d+)?(\.gguf)? by meshseal \S+\.\n", r"\2 by meshseal VERSION.\n", file.read(), count=1)
    with open(os.path.join(here, family + ".yaml"), encoding="utf-8") as file:
        expected = file.read()
    if found != expected:
        different += 1
        sys.stdout.writelines(difflib.unified_diff(expected.splitlines(True), found.splitlines(True), family, "imported"))
print(f"{len(families)} families, {different} different")
