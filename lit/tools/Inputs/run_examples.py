"""Runs the examples of every command's --help in a folder that looks like the project: run_examples.py MESHSEAL ROOT FOLDER."""

import os
import re
import shlex
import shutil
import subprocess
import sys

meshseal, root, folder = sys.argv[1:]
for name in ("manifests", "tests"):
    os.symlink(os.path.join(root, name), os.path.join(folder, name))
overview = subprocess.run([meshseal, "--help"], capture_output=True, text=True, check=True).stdout
built = [m[1] for m in re.finditer(r"^  (\w+) +(.*)$", overview, re.M) if m[1] != "meshseal"]
order = ["import", "check", "explain", "compile", "digest", "keygen", "sign", "verify", "show", "diff", "simulate", "run", "compare", "bench", "doctor"]
assert sorted(built) == sorted(order), built
# What `diff` compares with the plan of compile's example.
subprocess.run([meshseal, "compile", "manifests/deployments/tiny-ep3.yaml", "-o", "tiny-ep3.mseal"], cwd=folder, check=True,
               capture_output=True)
count = 0
for command in order:
    text = subprocess.run([meshseal, command, "--help"], capture_output=True, text=True, check=True).stdout
    assert len(text.splitlines()) <= 50, f"{command} --help has {len(text.splitlines())} lines"
    assert "Exit codes: 0 yes" in text, command
    examples = re.findall(r"^  meshseal (.*)$", text, re.M)
    assert len(examples) == 2, examples
    for example in examples:
        done = subprocess.run([meshseal, *shlex.split(example)], cwd=folder, capture_output=True, text=True,
                              input="a password\n")
        expected = 1 if command == "diff" else 0  # they differ
        assert done.returncode == expected, f"{example}: exit {done.returncode}\n{done.stderr}"
        print(f"ok: meshseal {example}")
        count += 1
    if command == "keygen":  # whoever runs the plans trusts the key of its example
        os.mkdir(os.path.join(folder, "keyring"))
        shutil.copy(os.path.join(folder, "build-key.pub"), os.path.join(folder, "keyring"))
print(f"{len(order)} commands, {count} examples")
