"""Copies a file with one byte changed: change_byte.py FROM TO OFFSET; a negative OFFSET counts from the end."""

import pathlib
import sys

data = bytearray(pathlib.Path(sys.argv[1]).read_bytes())
data[int(sys.argv[3])] ^= 1
pathlib.Path(sys.argv[2]).write_bytes(data)
