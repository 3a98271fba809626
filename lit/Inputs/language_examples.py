"""Writes the YAML examples of a Markdown file into a folder, each below models/, meshes/ or deployments/ as its kind is:
language_examples.py FILE FOLDER."""

import pathlib
import re
import sys

KINDS = {"model": "models", "mesh": "meshes", "deployment": "deployments"}
folder = pathlib.Path(sys.argv[2])
for example in re.findall(r"```yaml\n(.*?)```", pathlib.Path(sys.argv[1]).read_text(), re.S):
    kind = next(kind for kind in KINDS if re.search(rf"^{kind}:", example, re.M))
    name = re.search(r"^  name: (\S+)", example, re.M)
    path = folder / KINDS[kind] / ((name.group(1) if name else "example") + ".yaml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(example)
    print(path)
