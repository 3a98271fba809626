"""Writes a folder bin/ with programs that stand for those of a machine with a GPU, which say what they would: for
gpu-evidence. Usage: gpu_machine.py FOLDER [on-shim | different]     what the kernels' conformance says
"""

import os
import sys

folder, kind = sys.argv[1], (sys.argv[2:] or ["good"])[0]
VERDICT = {"good": "compare on a device: 2 chains, 9 arrays, 1 within their bound, 0 differ",
           "on-shim": "compare on the SIMT shim: 2 chains, 9 arrays, 0 within their bound, 0 differ",
           "different": "compare on a device: 2 chains, 9 arrays, 1 within their bound, 3 differ"}[kind]
LIMIT = '{"what":"limit","copy_gb_per_s":4300.0,"dense_tflop_per_s":790.0}'
DECODE = '{"what":"decode","layer":"L","format":"q8_0","tokens":1,"us":90.0,"gb_per_s":3900.0,"of_copy":0.907,"floor_us":81.6}'
PREFILL = '{"what":"prefill","layer":"L","format":"bf16","tokens":4096,"us":900.0,"tflop_per_s":400.0,"of_dense":0.506,"whole_us":950.0}'
CUBLAS = '{"what":"peer","peer":"cuBLAS","layer":"L","format":"bf16","tokens":4096,"us":300.0,"tflop_per_s":410.0,"furthest":0.5,"largest":99,"same":true}'
SCRIPTS = {
    "bin/nvidia-smi": "echo 'A GPU, GPU-1, 580.1, 9.0, 143771 MiB, Disabled, 1980 MHz'",
    "bin/cmake": "exit 0",
    "bin/nvcc": "echo 'a compiler'",
    "bin/compute-sanitizer": "echo '========= ERROR SUMMARY: 0 errors'",
    "bin/python": "echo '{\"what\":\"peer\",\"peer\":\"PyTorch\",\"absent\":\"torch is not installed\"}'",
    "out/build/bin/kernel_conformance_on_simt": "exit 0",
    "out/build/bin/kernel_conformance": f"case $1 in compare) echo '{VERDICT}';; *) echo 'replay on a device: 0 differ';; esac\n"
                                        f"exit {1 if kind == 'different' else 0}",
    "out/build/bin/kernel_bench": f"echo '{LIMIT}'; echo '{DECODE}'; echo '{PREFILL}'; echo '{CUBLAS}'",
    "out/build/bin/meshseal": "case $1 in compile) echo 'sealed x: 1 bytes, plan id abc';; *) echo 'within';; esac",
}
for name, text in SCRIPTS.items():
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as script:
        script.write(f"#!/bin/sh\n{text}\n")
    os.chmod(path, 0o755)
