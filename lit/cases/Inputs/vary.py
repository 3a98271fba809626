"""Writes model.yaml, mesh.yaml and deployment.yaml of this folder into FOLDER, with edits:

vary.py FOLDER [OTHER.yaml] [PATH=VALUE | PATH+=TEXT | PATH-]...

OTHER.yaml of this folder stands in for the document of its kind. PATH is keys joined by dots, the first one at the
margin (`moe.router.scale`); each is the first of that name within the one before it. `=` replaces a value, `+=` adds a
row or an entry to a map, `-` takes an entry away.

The deployment's `limits.rank_tokens` goes away where `dense.tp` is the whole expert group, which takes none, unless an edit
names it.
"""

import pathlib
import re
import sys

KINDS = ("model", "mesh", "deployment")


def value_end(text, at, indent):
    """The end of the value that begins at `at`, of a key with so much indentation."""
    if text[at] in "{[\"":
        depth = 0
        for found in re.compile(r'"[^"]*"|[{[\]}]').finditer(text, at):
            depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(found.group(), 0)
            if depth == 0:
                return found.end()
    if text[at] == "\n":
        return re.compile(r"(\n {%d}.*)*" % (indent + 1)).match(text, at).end()
    return re.compile(r"[^,}\]\n#]*[^,}\]\n# ]").match(text, at).end()


def find(text, path):
    """(start of the key, start of its value, end of its value, indentation of its line)"""
    start, end = 0, len(text)
    for depth, key in enumerate(path.split(".")):
        margin = "^" if depth == 0 else r"(?<![\w.])"
        pattern = margin + re.escape(key) + r":(?: +(?=[^ #])| *(?=\n))"
        found = re.compile(pattern, re.M).search(text, start, end)
        if found is None:
            sys.exit(f"vary.py: no '{key}' of {path}")
        line = text.rfind("\n", 0, found.start()) + 1
        indent = len(text[line:]) - len(text[line:].lstrip(" -"))
        start, end = found.end(), value_end(text, found.end(), indent)
    return found.start(), start, end, indent


def edit(text, word):
    path, operator, value = re.fullmatch(r"([\w.-]+?)(\+=|=|-$)(.*)", word, re.S).groups()
    key, start, end, indent = find(text, path)
    if operator == "=":
        return text[:start] + (" " if text[start] == "\n" else "") + value + text[end:]
    if operator == "-":
        if text[text.rfind("\n", 0, key) + 1:key].strip(" -"):  # inside {...}
            return text[:key].rstrip(", ") + text[end:] if text[end] == "}" else text[:key] + text[end:].lstrip(", ")
        return text[:text.rfind("\n", 0, key)] + text[end:]
    if text[start] == "{":
        return text[:end - 1] + ", " + value + text[end - 1:]
    return text[:end] + "\n" + " " * (indent + 2) + value + text[end:]


def without_needless_rank_tokens(text):
    degrees = re.search(r"^  parallel:.*?\btp: (\d+), ep: (\d+), .*?dense: \{tp: (\d+)", text, re.M)
    if "rank_tokens" not in text or degrees is None or int(degrees[1]) * int(degrees[2]) != int(degrees[3]):
        return text
    return edit(text, "deployment.limits.rank_tokens-")


def main(folder, *words):
    here = pathlib.Path(__file__).parent
    texts = [(here / f"{kind}.yaml").read_text() for kind in KINDS]
    kind_of = lambda text: next(i for i, kind in enumerate(KINDS) if re.search(f"^{kind}:", text, re.M))
    for word in words:
        if re.fullmatch(r"[\w.-]+\.yaml", word):
            text = (here / word).read_text()
            texts[kind_of(text)] = text
            continue
        top = re.match(r"\w+", word).group()
        which = next((i for i, text in enumerate(texts) if re.search(f"^{top}:", text, re.M)), None)
        if which is None:
            sys.exit(f"vary.py: no document has '{top}'")
        texts[which] = edit(texts[which], word)
    if not any("rank_tokens" in word for word in words):
        texts[2] = without_needless_rank_tokens(texts[2])
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    for kind, text in zip(KINDS, texts):
        (pathlib.Path(folder) / f"{kind}.yaml").write_text(text)


main(*sys.argv[1:])
