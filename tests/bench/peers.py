"""What other people's kernels do with the layers of kernel_bench, where they are installed: PyTorch's grouped product, and
vLLM's fused MoE kernels, which are Triton's. One JSON object a line, as kernel_bench; a peer that is not there says so.

Run by tools/gpu-evidence with the python3 that has them.
"""

import json
import sys

LAYERS = (("Mixtral-8x7B", 8, 14336, 4096, 2), ("Qwen3-30B-A3B", 128, 768, 2048, 8),
          ("DeepSeek-V3, a rank of 8", 32, 2048, 7168, 8))
DECODE_TOKENS = (1, 4, 16, 64)
PREFILL_TOKENS = 4096


def say(**fields):
    print(json.dumps({"what": "peer", **fields}), flush=True)


def median_us(torch, call, inner):
    """Of one of `inner` calls, as a graph."""
    call(0)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(inner):
            call(i)
    times = []
    for _ in range(12):
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        before.record()
        graph.replay()
        after.record()
        torch.cuda.synchronize()
        times.append(before.elapsed_time(after) * 1000 / inner)
    return sorted(times[2:])[len(times[2:]) // 2]


def grouped_product(torch, layer):
    name, experts, columns, hidden, top_k = layer
    rows = PREFILL_TOKENS * top_k
    product = getattr(torch.nn.functional, "grouped_mm", None) or getattr(torch, "_grouped_mm")
    x = torch.randn(rows, hidden, device="cuda", dtype=torch.bfloat16)
    up = torch.randn(experts, columns, hidden, device="cuda", dtype=torch.bfloat16)
    counts = torch.bincount(torch.randint(experts, (rows,), device="cuda"), minlength=experts)
    ends = torch.cumsum(counts, 0).to(torch.int32)
    us = median_us(torch, lambda _: product(x, up.transpose(1, 2), offs=ends), 1)
    say(peer="PyTorch grouped_mm, up alone", layer=name, format="bf16", tokens=PREFILL_TOKENS, us=us,
        tflop_per_s=2 * rows * columns * hidden / us / 1e6)


def fused_moe(torch, layer):
    from vllm.model_executor.layers.fused_moe import fused_experts  # pylint: disable=import-outside-toplevel
    name, experts, columns, hidden, top_k = layer
    gate_up = torch.randn(experts, 2 * columns, hidden, device="cuda", dtype=torch.bfloat16)
    down = torch.randn(experts, hidden, columns, device="cuda", dtype=torch.bfloat16)
    for tokens in (*DECODE_TOKENS, PREFILL_TOKENS):
        inner = 32 if tokens < PREFILL_TOKENS else 1
        x = torch.randn(tokens, hidden, device="cuda", dtype=torch.bfloat16)
        weights = torch.full((tokens, top_k), 1 / top_k, device="cuda")
        ids = [torch.rand(tokens, experts, device="cuda").topk(top_k).indices.to(torch.int32) for _ in range(inner)]
        us = median_us(torch, lambda i, x=x, ids=ids, weights=weights: fused_experts(x, gate_up, down, weights, ids[i]), inner)
        touched = sum(torch.unique(one).numel() for one in ids) / inner
        say(peer="vLLM fused MoE (Triton)", layer=name, format="bf16", tokens=tokens, us=us,
            gb_per_s=touched * 3 * columns * hidden * 2 / us / 1000, tflop_per_s=6 * tokens * top_k * columns * hidden / us / 1e6)


def main():
    try:
        import torch  # pylint: disable=import-outside-toplevel
    except ImportError:
        say(peer="PyTorch", absent="torch is not installed")
        return 0
    if not torch.cuda.is_available():
        say(peer="PyTorch", absent="torch sees no GPU")
        return 0
    for peer, run in (("PyTorch grouped_mm", grouped_product), ("vLLM fused MoE (Triton)", fused_moe)):
        for layer in LAYERS:
            try:
                run(torch, layer)
            except Exception as error:  # pylint: disable=broad-except
                say(peer=peer, layer=layer[0], absent=f"{type(error).__name__}: {error}".splitlines()[0])
            torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main())
