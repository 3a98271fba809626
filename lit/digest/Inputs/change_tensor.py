"""Copies a safetensors file with the last bit of one tensor changed: change_tensor.py FROM TO TENSOR."""

import json
import pathlib
import sys

data = bytearray(pathlib.Path(sys.argv[1]).read_bytes())
header = int.from_bytes(data[:8], "little")
end = json.loads(data[8 : 8 + header])[sys.argv[3]]["data_offsets"][1]
data[8 + header + end - 1] ^= 1
pathlib.Path(sys.argv[2]).write_bytes(data)
