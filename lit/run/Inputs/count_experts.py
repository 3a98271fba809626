"""Whether a load profile has the experts that were recorded of a layer: count_experts.py PROFILE RECORDED LAYER."""

import collections
import json
import pathlib
import struct
import sys

profile = json.loads(pathlib.Path(sys.argv[1]).read_text())
data = pathlib.Path(sys.argv[2]).read_bytes()
end = 8 + int.from_bytes(data[:8], "little")
entry = json.loads(data[8:end])[f"layer.{sys.argv[3]}.expert_ids"]
begin, last = entry["data_offsets"]
counts = collections.Counter(struct.unpack(f"<{(last - begin) // 4}i", data[end + begin:end + last]))
found = profile["layers"][sys.argv[3]]
if profile["tokens"] != entry["shape"][0] or found != [counts[expert] for expert in range(len(found))]:
    sys.exit(f"{profile}\nrecorded: {counts}")
