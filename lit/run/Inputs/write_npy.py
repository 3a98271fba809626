"""Writes raw little-endian numbers as .npy of float32: write_npy.py FROM.f32|FROM.f64 TO.npy COLUMNS."""

import pathlib
import struct
import sys

source, columns = pathlib.Path(sys.argv[1]), int(sys.argv[3])
data = source.read_bytes()
if source.suffix == ".f64":
    count = len(data) // 8
    data = struct.pack(f"<{count}f", *struct.unpack(f"<{count}d", data))
header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({len(data) // (4 * columns)}, {columns}), }}"
header += " " * (-(len(header) + 11) % 64) + "\n"
text = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()
pathlib.Path(sys.argv[2]).write_bytes(text + data)
