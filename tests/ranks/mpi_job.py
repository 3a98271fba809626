"""What the tests with several processes share: one job of ranks over MPI, watched from outside until nothing of it is left."""

import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "tests" / "data" / "tiny-qwen3-moe"
RECORDING = MODEL / "recorded" / "prompt-7.safetensors"
INPUT = f"{RECORDING}:layer.0.hidden_in"
MARK = "MESHSEAL_TEST_JOB"
TAGGED = re.compile(r"^\[\d+,(\d+)\]<std(?:err|out)>:(.*)$")


def compile_plan(bin_dir, deployment, plan):
    subprocess.run([bin_dir / "meshseal-compile", "compile", deployment, "-o", plan],
                   check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)


def run_arguments(plan, output, arguments=("--stack", "--input", INPUT), weights=MODEL):
    return ["run", plan, "--weights", weights, "--unverified-weights", "--output", output, *arguments]


def run_inproc(bin_dir, plan, output, arguments=("--stack", "--input", INPUT)):
    """The result, as bytes, of all ranks as threads."""
    subprocess.run([bin_dir / "meshseal-run", *run_arguments(plan, output, arguments)],
                   check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
    return pathlib.Path(output).read_bytes()


def read_rows(safetensors, tensor):
    """A float32 [rows, columns] tensor: its shape and bytes."""
    data = pathlib.Path(safetensors).read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    entry = json.loads(data[8:8 + length])[tensor]
    begin, end = entry["data_offsets"]
    assert entry["dtype"] == "F32"
    return entry["shape"], bytearray(data[8 + length + begin:8 + length + end])


def write_npy(path, shape, data):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({shape[0]}, {shape[1]}), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    pathlib.Path(path).write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + bytes(data))


def marked(mark):
    """The processes that were started with this mark in their environment."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                if wanted in file.read().split(b"\0"):
                    found.append(int(entry))
        except OSError:
            pass  # gone, or not ours
    return found


def run_cases(cases, only, jobs):
    """Runs the cases whose name has `only`, `jobs` at a time, and prints a line of each; the exit code. A case gives what its
    line says besides its name, and what is wrong, as texts."""
    cases = {name: case for name, case in cases.items() if only in name}
    passed = 0
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for name, (said, wrong) in zip(cases, pool.map(lambda case: case(), cases.values())):
            passed += not wrong
            print(f"{'FAIL' if wrong else 'ok  '} {name:44} {said}".rstrip(), flush=True)
            for text in wrong:
                print("     " + text.replace("\n", "\n       "), flush=True)
    print(f"{passed} of {len(cases)} cases")
    return 0 if passed == len(cases) and cases else 1


class Job:
    """One start of tools/mpi-local, in a folder of its own. Used with `with`, which leaves no process behind."""

    def __init__(self, ranks, command, launcher=None, flags=(), environment=None):
        self.mark = uuid.uuid4().hex
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="meshseal-job-"))
        self.shared = pathlib.Path(tempfile.mkdtemp(prefix="meshseal-job-", dir="/dev/shm"))
        self.session = self.folder / "session"
        self.session.mkdir()
        self.output = self.folder / "y.npy"
        self.errors = str(self.folder / "e-{rank}.json")
        self.ranks = ranks
        command = [str(word).replace("{output}", str(self.output)).replace("{errors}", self.errors) for word in command]
        log = open(self.folder / "log", "wb")
        self.process = subprocess.Popen(
            [*(launcher or [ROOT / "tools" / "mpi-local"]), "-n", str(ranks), "--tag-output", "--mca", "orte_tmpdir_base",
             self.session, "--mca", "btl_vader_backing_directory", self.shared, *flags, *command],
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, **(environment or {}), MARK: self.mark})
        log.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in marked(self.mark):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        shutil.rmtree(self.shared, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def processes(self):
        return marked(self.mark)

    def wait(self, seconds):
        """The exit code once no process of the job is left, and when that was; None where some are after `seconds`."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            code = self.process.poll()
            if code is not None and not self.processes():
                return code, time.monotonic()
            time.sleep(0.03)
        return None, time.monotonic()

    def log(self):
        return (self.folder / "log").read_text(errors="replace")

    def said(self, rank):
        """What a rank gave as its cause: the text and exit code of its error file, else what it printed."""
        path = self.folder / f"e-{rank}.json"
        if path.exists():
            error = json.loads(path.read_text())
            return error["text"], error["exit_code"]
        lines = [match[2] for match in map(TAGGED.match, self.log().splitlines()) if match and int(match[1]) == rank]
        causes = [line for line in lines if line.startswith("meshseal run: ")]
        return (causes[-1], None) if causes else (None, None)

    def left_behind(self):
        return [str(path) for folder in (self.session, self.shared) for path in sorted(folder.rglob("*"))]
