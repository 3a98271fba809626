#!/usr/bin/env python3
"""Proves that a way round the seal, or round a stage, does not compile: compiles one file twice. As it is it must
compile, so that nothing but the way itself is at fault; with MESHSEAL_BYPASS defined every error must be an expected one.

Usage: run.py --build DIR --compiler CXX FILE     DIR holds compile_commands.json
       run.py --build DIR --compiler CXX --precompile
       run.py --compiler CXX --self-test

--precompile compiles precompiled.h into DIR/nocompile, where the compiler takes it for the other files: half of their time.
A file says in comments: AS: the source of the project whose include path it gets; EXPECT-gcc: and EXPECT-clang: a part
of the error, one a line where there are several.
"""

import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PRECOMPILED = pathlib.Path(__file__).parent / "precompiled.h"
DEFINE = "MESHSEAL_BYPASS"
GUARD = re.compile(rf"^#ifdef {DEFINE}\n((?:(?!#).*\n)+)(?:#else\n((?:(?!#).*\n)+))?#endif$", re.MULTILINE)
GUARD_OF_INCLUDES = re.compile(rf"^#ifdef {DEFINE}\n(?:#(?:define|include) .*\n)+#else\n(?:#include .*\n)+#endif$", re.MULTILINE)


def directives(text, word):
    return re.findall(rf"^// {re.escape(word)}: (.+)$", text, re.MULTILINE)


def family_of(compiler):
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
    return "clang" if "clang" in version else "gcc"


def flags_of(source, build):
    """Language, definitions and include path that the project compiles `source` with, and no option of one compiler."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        if entry["file"] == str(ROOT / source):
            words = entry.get("arguments") or shlex.split(entry["command"])
            return [word for i, word in enumerate(words)
                    if re.match(r"-I.|-D.|-std=", word) or "-isystem" in (word, words[i - 1])]
    return None


def errors_of(compiler, flags, path, *options):
    """The compiler's error lines; none where the file compiles."""
    command = [compiler, *flags, "-fsyntax-only", *options, str(path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"})
    errors = [line for line in result.stderr.splitlines() if re.search(r"\b(fatal )?error: ", line)]
    if (result.returncode != 0) != bool(errors):
        return errors + [f"exit code {result.returncode} with {len(errors)} errors: {result.stderr.strip()}"]
    return errors


def precompile(compiler, build):
    """What is wrong with the header, as texts."""
    folder = build / "nocompile"
    folder.mkdir(exist_ok=True)
    header = shutil.copy(PRECOMPILED, folder)
    result = subprocess.run([compiler, *flags_of("schema/sealed_plan.cc", build), "-x", "c++-header", header, "-o", f"{header}.gch"],
                            capture_output=True, text=True, check=False)
    return [result.stderr] if result.returncode != 0 else []


def check(path, compiler, flags):
    """What is wrong with the file, as texts."""
    text = path.read_text(encoding="utf-8")
    if text.count(DEFINE) != 1 or not (GUARD.search(text) or GUARD_OF_INCLUDES.search(text)):
        return [f"must have one '#ifdef {DEFINE}' around the way that must not compile"]
    family = family_of(compiler)
    expected = directives(text, f"EXPECT-{family}")
    if not expected:
        return [f"has no line '// EXPECT-{family}: '"]
    faults = [f"{family}: does not compile without {DEFINE}: {error}" for error in errors_of(compiler, flags, path)]
    errors = errors_of(compiler, flags, path, f"-D{DEFINE}")
    if not errors:
        return faults + [f"{family}: compiles with {DEFINE}: this way is open"]
    faults += [f"{family}: another error than expected: {error}" for error in errors
               if not any(part in error for part in expected)]
    return faults + [f"{family}: no error says: {part}" for part in expected if not any(part in error for error in errors)]


CLOSED = "class Sealed {\n  Sealed() {}\n};\n"
OPEN = "struct Sealed {};\n"
EXPECTED = "// EXPECT-gcc: is private within this context\n// EXPECT-clang: calling a private constructor\n"
WAY = f"#ifdef {DEFINE}\nSealed forged;\n#endif\n"

# (name, text, a part of each fault, with FAMILY for the compiler's)
PLANTED = [
    ("closed", EXPECTED + CLOSED + WAY, []),
    ("open", EXPECTED + OPEN + WAY, [f"FAMILY: compiles with {DEFINE}: this way is open"]),
    ("vacuous", EXPECTED + CLOSED + "Sealed twin;\n" + WAY, [f"FAMILY: does not compile without {DEFINE}: "]),
    ("misspelled", EXPECTED + CLOSED + WAY.replace("Sealed", "Unknown"),
     ["FAMILY: another error than expected: ", "FAMILY: no error says: "]),
    ("second-error", EXPECTED + CLOSED + WAY.replace(";", "; Unknown u;"), ["FAMILY: another error than expected: "]),
    ("no-expectation", CLOSED + WAY, ["has no line '// EXPECT-FAMILY: '"]),
    ("no-way", EXPECTED + CLOSED, [f"must have one '#ifdef {DEFINE}'"]),
    ("two-ways", EXPECTED + CLOSED + WAY + WAY, [f"must have one '#ifdef {DEFINE}'"]),
    ("twin-hidden", EXPECTED + CLOSED + WAY.replace("ifdef", "ifndef"), [f"must have one '#ifdef {DEFINE}'"]),
]


def self_test(compiler):
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        for name, text, wanted in PLANTED:
            path = pathlib.Path(folder, name + ".cc")
            path.write_text(text, encoding="utf-8")
            found = check(path, compiler, ["-std=c++20"])
            parts = [part.replace("FAMILY", family_of(compiler)) for part in wanted]
            if len(found) != len(parts) or not all(part in fault for part, fault in zip(parts, found)):
                faults.append(f"self-test: {name}: found {found}, wanted {parts}")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--precompile", action="store_true")
    parser.add_argument("file", nargs="?", type=pathlib.Path)
    options = parser.parse_args()
    if options.self_test:
        faults = self_test(options.compiler)
    elif options.precompile and options.build:
        faults = precompile(options.compiler, options.build)
    elif options.file and options.build:
        sources = directives(options.file.read_text(encoding="utf-8"), "AS")
        flags = flags_of(sources[0], options.build) if len(sources) == 1 else None
        include = ["-include", options.build / "nocompile" / PRECOMPILED.name]
        faults = check(options.file, options.compiler, [*flags, *include]) if flags else ["must have one '// AS: ' with a source"]
        faults = [f"{options.file}: error: {fault}" for fault in faults]
    else:
        parser.error("expected --self-test, or --build and a file or --precompile")
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
