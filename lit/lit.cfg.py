"""How the tests under lit/ are run. Built by CMake into <build>/lit, run by ctest; see README.md beside this file."""

import glob
import os
import shutil
import sys

import lit.formats

if not hasattr(config, "meshseal_bin_dir"):
    lit_config.fatal("run lit on a build folder: lit.py build/release/lit (or ctest --preset release)")

config.name = "meshseal"
config.test_format = lit.formats.ShTest(execute_external=False)  # lit's own shell: a crash is not an exit code
config.suffixes = [".yaml", ".test"]
config.excludes = ["Inputs", "inputs", "lit.cfg.py", "lit.site.cfg.py"]
config.test_source_root = os.path.join(config.meshseal_source_dir, "lit")
config.test_exec_root = config.meshseal_lit_output_dir

config.environment.update({
    "LC_ALL": "C.UTF-8",
    "NO_COLOR": "1",
    "TERM": "dumb",
    "FILECHECK_OPTS": "--enable-var-scope",
    "PYTHONDONTWRITEBYTECODE": "1",
})
if "TSAN_OPTIONS" in os.environ:  # lit passes on those of the other sanitizers itself
    config.environment["TSAN_OPTIONS"] = os.environ["TSAN_OPTIONS"]


def substitute(name, value):
    # A whole name only: %meshseal is not the start of %meshseal-run.
    config.substitutions.append((name + r"(?![\w-])", value.replace("\\", r"\\")))


config.meshseal_python = sys.executable  # what was configured may be a slow wrapper of it
for program in ("meshseal-compile", "meshseal-plan", "meshseal-run", "meshseal-run-on-stand-ins", "meshseal"):
    substitute("%" + program, os.path.join(config.meshseal_bin_dir, program))
substitute("%libmeshseal", os.path.join(config.meshseal_lib_dir, "libmeshseal.so"))
substitute("%filecheck", config.meshseal_filecheck)
substitute("%not", config.meshseal_not)
substitute("%python", config.meshseal_python)
substitute("%exits", config.meshseal_python + " " + os.path.join(config.meshseal_source_dir, "lit", "Inputs", "exit_code.py"))
# Instrumented programs take more time and memory than the limits of a test say.
bounded = os.path.join(config.meshseal_source_dir, "lit", "Inputs", "bounded.py")
substitute("%bounded", " ".join((config.meshseal_python, bounded, "6" if config.meshseal_sanitize else "1")))
vary = os.path.join(config.meshseal_source_dir, "lit", "cases", "Inputs", "vary.py")
substitute("%vary", config.meshseal_python + " " + vary)
substitute("%root", config.meshseal_source_dir)
substitute("%data", os.path.join(config.meshseal_source_dir, "tests", "data"))

if os.path.exists(config.meshseal_nvcc):
    config.available_features.add("nvcc")
    kernels = os.path.join(config.meshseal_source_dir, "tests", "cuda", "compile_kernels")
    substitute("%ptx", " ".join((config.meshseal_python, kernels, "--nvcc", config.meshseal_nvcc, "--print-ptx")))
if config.meshseal_compiler:
    config.available_features.add("compiler")
if config.meshseal_cuda:
    config.available_features.add("cuda")
if config.meshseal_stand_ins:
    config.available_features.add("stand-ins")
if not glob.glob("/dev/nvidia[0-9]*"):
    config.available_features.add("no-gpu")
for sanitizer, feature in (("address", "asan"), ("thread", "tsan")):
    if sanitizer in config.meshseal_sanitize.split(","):
        config.available_features.add(feature)
for program in ("clang-format-14", "minisign"):
    if shutil.which(program):
        config.available_features.add(program)
