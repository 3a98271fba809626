"""Each imported manifest of this folder is the hand-written one of manifests/models scaled down: the same lines but for the
numbers of sizes, the name and label, what is not MoE, and the order of ignored patterns. scaled_down.py ROOT"""

import pathlib
import re
import sys

PAIRS = {
    "mixtral": "mixtral-8x7b",
    "qwen2_moe": "qwen1.5-moe-a2.7b",
    "qwen3_moe": "qwen3-30b-a3b",
    "qwen3_next": "qwen3-next-80b-a3b",
    "qwen3_5_moe": "qwen3.5-35b-a3b",
    "olmoe": "olmoe-1b-7b",
    "deepseek_v2": "deepseek-v2-lite",
    "deepseek_v3": "deepseek-v3",
    "deepseek_v4": "deepseek-v4-flash",
    "kimi_k2": "kimi-k2",
    "glm4_moe": "glm-4.5",
    "glm_moe_dsa": "glm-5",
    "gpt_oss": "gpt-oss-20b",
    "llama4": "llama-4-scout",
    "granitemoe": "granite-3.x-1b-a400m",
    "phimoe": "phi-3.5-moe",
    "minimax_m2": "minimax-m2",
}
SIZES = ("hidden_size", "layers", "attention", "experts", "experts_per_token", "intermediate_size", "scale", "groups",
         "shared_expert", "mtp_layers", "token_table")
OF_THE_LARGE_MODEL = {("deepseek_v2", "groups")}  # the Lite model, which is the one shipped, has no groups
LEFT_OUT = ("name", "family", "other_weights", "ignored")


def lines(path):
    """Key -> the rest of its line, sizes as N; only the first number of a tensor's tile says whether rows share it."""
    found = {}
    for line in path.read_text().splitlines():
        line = re.sub(r"\s+#.*$", "", line)
        match = re.match(r"( *)(- )?([\w{]+):? ?(.*)$", line)
        if line.startswith("#") or not line or not match:
            continue
        key, rest = match.group(1) + match.group(3), match.group(4)
        if match.group(3) in LEFT_OUT:
            continue
        if match.group(3) in SIZES:
            rest = re.sub(r"\[[-0-9, ]+\]|all|\d+(\.\d+)?", "N", rest)
        found[key] = re.sub(r"block: \[(\d+), \d+\]", lambda m: f"block: [{'1' if m.group(1) == '1' else 'N'}, N]", rest)
    return found


root = pathlib.Path(sys.argv[1])
different = 0
for family, model in PAIRS.items():
    ours = lines(root / "lit/import/Inputs" / f"{family}.yaml")
    written = lines(root / "manifests/models" / f"{model}.yaml")
    for key in sorted(set(ours) | set(written)):
        if ours.get(key) != written.get(key) and (family, key.strip()) not in OF_THE_LARGE_MODEL:
            different += 1
            print(f"{family} / {model}: {key.strip()}: {ours.get(key)} / {written.get(key)}")
print(f"{len(PAIRS)} families, {different} lines different")
