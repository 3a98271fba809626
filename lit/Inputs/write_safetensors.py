"""Writes FOLDER/model.safetensors: write_safetensors.py FOLDER "NAME DTYPE D0xD1..."...

`{A-B}` in a name stands for each number from A to B. `[]` is the shape of a scalar. The payload is zeros, and sparse.
"""

import itertools
import json
import math
import os
import re
import sys

BITS = {"F32": 32, "F16": 16, "BF16": 16, "I64": 64, "I32": 32, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F4": 4}

header, end = {}, 0
for tensor in sys.argv[2:]:
    pattern, dtype, dimensions = tensor.split()
    shape = [] if dimensions == "[]" else [int(d) for d in dimensions.split("x")]
    parts = re.split(r"\{(\d+)-(\d+)\}", pattern)
    ranges = [range(int(first), int(last) + 1) for first, last in zip(parts[1::3], parts[2::3])]
    for numbers in itertools.product(*ranges):
        name = parts[0] + "".join(f"{number}{text}" for number, text in zip(numbers, parts[3::3]))
        start, end = end, end + math.prod(shape) * BITS[dtype] // 8
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
os.makedirs(sys.argv[1], exist_ok=True)
with open(os.path.join(sys.argv[1], "model.safetensors"), "wb") as file:
    file.write(len(text).to_bytes(8, "little") + text)
    file.truncate(8 + len(text) + end)
