#!/usr/bin/env python3
"""Records what the MoE blocks of Hugging Face's own model classes compute, for the tests of tests/data/oracles.

Usage: oracle.py [--family NAME]... [--output DIR] [--meshseal PROGRAM]
       oracle.py --list

A family is a tiny random model: its class reads config.json, is given random weights, is saved as the library saves it,
and is loaded again from those files. Each of its MoE blocks is then called with 13 random rows. What comes out, under
DIR/NAME:

  config.json            spelled as the family's published checkpoints spell it
  model.safetensors      the tensors of the MoE blocks, as saved; the rest of the model is left out
  model.yaml             the manifest: `meshseal import hf`, or written here for a family that import does not know
  recorded.safetensors   layer.N.{hidden_in,hidden_out,router_logits,expert_ids,expert_weights}, and token_ids where a
                         layer selects by them; experts in the order of the selection: score descending, id ascending

Before anything is written, every block is computed again in float64 by this file's own arithmetic, from the saved
tensors and from the fields of the manifest alone. The same experts must come out, weights and outputs within 1e-5 of
the largest, and the same experts again when the logits move by a ten-thousandth.

Needs transformers, torch, numpy, safetensors and pyyaml. DIR is tests/data/oracles when absent, PROGRAM is
build/release/bin/meshseal. The same versions on the same kind of processor write the same bytes.
"""

import argparse
import inspect
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zlib

import numpy as np
import torch
import transformers
import yaml
from safetensors.numpy import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOKENS, HIDDEN, WIDTH, EXPERTS, VOCABULARY = 13, 32, 16, 8, 64
TOLERANCE = 1e-5  # of the largest value
SHIFT = 1e-4      # of the logits, that must change no selection


class Mismatch(Exception):
    """The library, its files and the manifest disagree."""


# --- The families -----------------------------------------------------------------------------------------------------


class Family:
    """A configuration, and how its model is made and published."""

    def __init__(self, config, auto=transformers.AutoModelForCausalLM, prepare=None, publish=None, manifest=None):
        self.config = config
        self.auto = auto          # the class that makes the model of a configuration
        self.prepare = prepare    # (rng, name, values): other random values for a parameter, or None
        self.publish = publish    # (rng, tensors): what is published, from what the library saves
        self.manifest = manifest  # of a family that import does not know

    @property
    def text(self):
        """The language model's part of the configuration."""
        return self.config.get("text_config", self.config)


def usual(model_type, architecture, top_k, **fields):
    return {"architectures": [architecture], "model_type": model_type, "hidden_act": "silu", "hidden_size": HIDDEN,
            "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "num_experts_per_tok": top_k,
            "max_position_embeddings": 64, "vocab_size": VOCABULARY, "bos_token_id": 0, "eos_token_id": 0,
            "pad_token_id": 0, "tie_word_embeddings": False, "torch_dtype": "float32", **fields}


def renamed(pattern, replacement):
    """For names that the library reads as published and saves otherwise."""
    return lambda _, tensors: {re.sub(pattern, replacement, name): values for name, values in tensors.items()}


def mixtral():
    return Family(usual("mixtral", "MixtralForCausalLM", 2, num_hidden_layers=2, num_local_experts=EXPERTS,
                        intermediate_size=WIDTH))


def phimoe():
    """Every second expert's router row is near that of the expert before it, so that the softmax has near logits."""

    def prepare(rng, name, values):
        if not name.endswith("router.weight"):
            return None
        values[1::2] = values[::2] + 0.01 * rng.standard_normal(values[::2].shape)
        return values

    return Family(usual("phimoe", "PhiMoEForCausalLM", 2, num_local_experts=EXPERTS, intermediate_size=WIDTH,
                        router_jitter_noise=0.01, input_jitter_noise=0.01), prepare=prepare)


def minimax_m2():
    return Family(usual("minimax_m2", "MiniMaxM2ForCausalLM", 4, num_local_experts=EXPERTS, intermediate_size=WIDTH,
                        head_dim=8, rotary_dim=4, use_routing_bias=True, scoring_func="sigmoid",
                        shared_intermediate_size=0))


def qwen2_moe():
    return Family(usual("qwen2_moe", "Qwen2MoeForCausalLM", 4, num_experts=EXPERTS, moe_intermediate_size=WIDTH,
                        intermediate_size=48, shared_expert_intermediate_size=48, decoder_sparse_step=1,
                        norm_topk_prob=False))


def qwen3_moe():
    """Every second layer has experts, and one of those is dense."""
    return Family(usual("qwen3_moe", "Qwen3MoeForCausalLM", 3, num_hidden_layers=4, num_experts=EXPERTS,
                        moe_intermediate_size=WIDTH, intermediate_size=48, head_dim=8, decoder_sparse_step=2,
                        mlp_only_layers=[3], norm_topk_prob=True))


QWEN_LINEAR = {"linear_conv_kernel_dim": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
               "linear_num_key_heads": 2, "linear_num_value_heads": 2}


def qwen3_next():
    return Family(usual("qwen3_next", "Qwen3NextForCausalLM", 3, num_experts=EXPERTS, moe_intermediate_size=WIDTH,
                        intermediate_size=48, shared_expert_intermediate_size=WIDTH, head_dim=8, decoder_sparse_step=1,
                        full_attention_interval=4, mlp_only_layers=[], norm_topk_prob=True, **QWEN_LINEAR))


def qwen3_5_moe():
    text = usual("qwen3_5_moe_text", "", 3, num_experts=EXPERTS, moe_intermediate_size=WIDTH, head_dim=8,
                 shared_expert_intermediate_size=WIDTH, full_attention_interval=4, **QWEN_LINEAR)
    text["dtype"] = text.pop("torch_dtype")
    del text["architectures"]
    vision = {"model_type": "qwen3_5_moe", "depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2,
              "out_hidden_size": HIDDEN, "num_position_embeddings": 4}

    def publish(_, tensors):
        """The library saves a tensor per expert, and reads the stacks of the released models too."""
        first = ".0.gate_proj.weight"
        for experts in [name.removesuffix(first) for name in tensors if name.endswith(".experts" + first)]:
            gate, up, down = (np.stack([tensors.pop(f"{experts}.{i}.{part}_proj.weight") for i in range(EXPERTS)])
                              for part in ("gate", "up", "down"))
            tensors[f"{experts}.gate_up_proj"] = np.concatenate((gate, up), axis=1)
            tensors[f"{experts}.down_proj"] = down
        return tensors

    return Family({"architectures": ["Qwen3_5MoeForConditionalGeneration"], "model_type": "qwen3_5_moe",
                   "tie_word_embeddings": False, "text_config": text, "vision_config": vision},
                  auto=transformers.AutoModelForImageTextToText, publish=publish)


def olmoe():
    return Family(usual("olmoe", "OlmoeForCausalLM", 4, num_experts=EXPERTS, intermediate_size=WIDTH,
                        norm_topk_prob=False))


LATENT = {"qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8, "kv_lora_rank": 8, "q_lora_rank": 8,
          "num_key_value_heads": 4}


def deepseek(model_type, architecture, **fields):
    return Family(usual(model_type, architecture, 3, num_hidden_layers=2, n_routed_experts=EXPERTS,
                        moe_intermediate_size=WIDTH, intermediate_size=48, first_k_dense_replace=1, moe_layer_freq=1,
                        **{**LATENT, **fields}))


def deepseek_v2():
    return deepseek("deepseek_v2", "DeepseekV2ForCausalLM", n_shared_experts=2, topk_method="group_limited_greedy",
                    n_group=4, topk_group=2, norm_topk_prob=False, scoring_func="softmax", routed_scaling_factor=16.0)


def deepseek_v2_lite():
    return deepseek("deepseek_v2", "DeepseekV2ForCausalLM", n_shared_experts=2, topk_method="greedy", n_group=1,
                    topk_group=1, norm_topk_prob=False, scoring_func="softmax", routed_scaling_factor=1.0,
                    q_lora_rank=None)


BIASED_SIGMOID = {"n_shared_experts": 1, "norm_topk_prob": True, "routed_scaling_factor": 2.5,
                  "num_nextn_predict_layers": 0}
NOAUX = {**BIASED_SIGMOID, "topk_method": "noaux_tc", "scoring_func": "sigmoid"}


def deepseek_v3():
    return deepseek("deepseek_v3", "DeepseekV3ForCausalLM", n_group=4, topk_group=2, **NOAUX)


def kimi_k25():
    text = deepseek("deepseek_v3", "", n_group=1, topk_group=1, **{**NOAUX, "routed_scaling_factor": 2.827}).config
    text["dtype"] = text.pop("torch_dtype")
    del text["architectures"]
    vision = {"model_type": "kimi_k25_vision", "hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2,
              "num_hidden_layers": 1, "pos_emb_height": 2, "pos_emb_width": 2}
    return Family({"architectures": ["KimiK25ForConditionalGeneration"], "model_type": "kimi_k25",
                   "tie_word_embeddings": False, "projection_hidden_size": 16, "text_config": text,
                   "vision_config": vision}, auto=transformers.AutoModelForImageTextToText,
                  publish=renamed(r"^(language_model\..*)\.blocks\.", r"\1.layers."))


def deepseek_v4():
    """Two layers: the first selects by token id."""
    return Family(usual("deepseek_v4", "DeepseekV4ForCausalLM", 3, num_hidden_layers=2, n_routed_experts=EXPERTS,
                        moe_intermediate_size=WIDTH, n_shared_experts=1, num_key_value_heads=1, head_dim=8,
                        qk_rope_head_dim=4, q_lora_rank=8, o_lora_rank=8, o_groups=2, index_n_heads=2,
                        index_head_dim=8, index_topk=4, hc_mult=2, compress_ratios=[0, 0], routed_scaling_factor=1.5,
                        norm_topk_prob=True, scoring_func="sqrtsoftplus", topk_method="noaux_tc", num_hash_layers=1,
                        swiglu_limit=1.5, num_nextn_predict_layers=0), publish=renamed(r"^model\.", ""))


def glm4_moe():
    return Family(usual("glm4_moe", "Glm4MoeForCausalLM", 3, num_hidden_layers=2, n_routed_experts=EXPERTS,
                        moe_intermediate_size=WIDTH, intermediate_size=48, first_k_dense_replace=1, head_dim=8,
                        n_group=1, topk_group=1, **BIASED_SIGMOID))


def glm_moe_dsa():
    return deepseek("glm_moe_dsa", "GlmMoeDsaForCausalLM", n_group=1, topk_group=1, moe_router_dtype="float32",
                    index_head_dim=8, index_n_heads=2, index_topk=4, **BIASED_SIGMOID)


def gpt_oss(hidden=HIDDEN, width=WIDTH, **fields):
    """The clamp is nearer to zero than that of the released models, so that it acts."""
    return Family(usual("gpt_oss", "GptOssForCausalLM", 4, hidden_size=hidden, num_local_experts=EXPERTS,
                        intermediate_size=width, head_dim=8, experts_per_token=4, swiglu_limit=1.5,
                        rope_scaling={"rope_type": "default"}, rope_theta=150000, **fields))


def gpt_oss_mxfp4():
    """As released: 4-bit codes with power-of-two scales. The library dequantises them when it loads."""

    def publish(rng, tensors):
        for name in [name for name in tensors if re.search(r"experts\.(gate_up|down)_proj$", name)]:
            experts, columns, rows = tensors.pop(name).shape
            blocks = (experts, rows, columns // 32)
            tensors[name + "_blocks"] = rng.integers(0, 256, (*blocks, 16), dtype=np.uint8)
            tensors[name + "_scales"] = rng.integers(123, 126, blocks, dtype=np.uint8)  # 1/16 to 1/4
        return tensors

    family = gpt_oss(64, 64, quantization_config={
        "quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router",
                                                            "model.embed_tokens", "lm_head"]})
    family.publish = publish
    return family


def llama4():
    text = usual("llama4_text", "", 1, num_hidden_layers=2, num_local_experts=EXPERTS, intermediate_size=WIDTH,
                 intermediate_size_mlp=48, head_dim=8, interleave_moe_layer_step=2)
    del text["architectures"]
    vision = {"model_type": "llama4_vision_model", "hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2,
              "num_hidden_layers": 1, "image_size": 8, "patch_size": 4, "vision_output_dim": 16,
              "projector_input_dim": 16, "projector_output_dim": 16}
    return Family({"architectures": ["Llama4ForConditionalGeneration"], "model_type": "llama4",
                   "tie_word_embeddings": False, "text_config": text, "vision_config": vision},
                  auto=transformers.AutoModelForImageTextToText)


def granitemoe():
    return Family(usual("granitemoe", "GraniteMoeForCausalLM", 4, num_local_experts=EXPERTS, intermediate_size=WIDTH))


def jamba():
    return Family(usual("jamba", "JambaForCausalLM", 2, num_hidden_layers=4, num_experts=EXPERTS,
                        intermediate_size=WIDTH, expert_layer_period=2, expert_layer_offset=1, attn_layer_period=4,
                        attn_layer_offset=2, mamba_d_state=4, mamba_d_conv=2, mamba_expand=1, mamba_dt_rank=4))


def nemotron_h():
    """Experts without a gate. Import does not know the family."""
    config = usual("nemotron_h", "NemotronHForCausalLM", 3, hybrid_override_pattern="*E", num_hidden_layers=2,
                   n_routed_experts=EXPERTS, moe_intermediate_size=WIDTH, moe_shared_expert_intermediate_size=48,
                   n_shared_experts=1, intermediate_size=48, head_dim=8, mlp_hidden_act="relu2", n_group=4,
                   topk_group=2, norm_topk_prob=True, routed_scaling_factor=2.5, ssm_state_size=4, mamba_num_heads=4,
                   mamba_head_dim=8, n_groups=1, chunk_size=4)
    del config["hidden_act"]
    return Family(config, manifest=NEMOTRON_H)


NEMOTRON_H = """\
# The MoE layers of a Nemotron-H model: experts without a gate, selected in groups.
meshseal: 1
model:
  name: nemotron-h
  family: nemotron_h
  hidden_size: 32
  layers: 2
  attention: {kind: other}
  other_weights: 0B
moe:
  layers: [1]
  experts: 8
  experts_per_token: 3
  intermediate_size: 16
  router:
    scoring: sigmoid
    order: score_then_topk
    renormalize: {sum_plus: {guard: 1.0e-20}}
    scale: 2.5
    logit_bias: none
    selection_bias: tensor
    groups: {count: 4, keep: 2, score: top2_sum}
    weight_applied: output
    input_dtype: f32
    token_table: none
  activation: {kind: relu2}
  gated: false
  shared_expert: {width: 48, gate: none, activation: same}
  residual: none
weights:
  source: safetensors
  tensors:
    router: {name: "backbone.layers.{layer}.mixer.gate.weight", dtype: f32, shape: [experts, hidden]}
    selection_bias: {name: "backbone.layers.{layer}.mixer.gate.e_score_correction_bias", dtype: f32, shape: [experts]}
    up:
      name: "backbone.layers.{layer}.mixer.experts.{expert}.up_proj.weight"
      dtype: f32
      shape: [intermediate, hidden]
    down:
      name: "backbone.layers.{layer}.mixer.experts.{expert}.down_proj.weight"
      dtype: f32
      shape: [hidden, intermediate]
    shared_up:
      name: "backbone.layers.{layer}.mixer.shared_experts.up_proj.weight"
      dtype: f32
      shape: [shared, hidden]
    shared_down:
      name: "backbone.layers.{layer}.mixer.shared_experts.down_proj.weight"
      dtype: f32
      shape: [hidden, shared]
  ignored: []
collectives:
  - {after: combine, op: sum, over: expert_group}
"""

FAMILIES = {"mixtral": mixtral, "phimoe": phimoe, "minimax-m2": minimax_m2, "qwen2-moe": qwen2_moe,
            "qwen3-moe": qwen3_moe, "qwen3-next": qwen3_next, "qwen3.5-moe": qwen3_5_moe, "olmoe": olmoe,
            "deepseek-v2": deepseek_v2, "deepseek-v2-lite": deepseek_v2_lite, "deepseek-v3": deepseek_v3,
            "kimi-k2.5": kimi_k25, "deepseek-v4": deepseek_v4, "glm4-moe": glm4_moe, "glm-moe-dsa": glm_moe_dsa,
            "gpt-oss": gpt_oss, "gpt-oss-mxfp4": gpt_oss_mxfp4, "llama4": llama4, "granitemoe": granitemoe,
            "jamba": jamba, "nemotron-h": nemotron_h}


# --- The library's side -----------------------------------------------------------------------------------------------


def blocks_of(model):
    """(layer, module) of every module that holds experts."""
    for name, module in model.named_modules():
        if "experts" in dict(module.named_children()):
            yield int(re.search(r"layers\.(\d+)\.", name).group(1)), module


def fill(rng, family, model):
    """Random values for all that a MoE block reads: routers that decide, biases that are not zero."""
    for _, block in blocks_of(model):
        for name, tensor in [*block.named_parameters(), *block.named_buffers()]:
            if tensor.dtype == torch.int64:  # a token table: different experts in each row
                values = np.argsort(rng.random((tensor.shape[0], EXPERTS)), axis=1)[:, :tensor.shape[1]]
            else:
                router = re.fullmatch(r"(gate|router)\.weight", name)
                values = rng.standard_normal(tensor.shape) * (2 / HIDDEN**0.5 if router else 0.3)
            if family.prepare is not None:
                prepared = family.prepare(rng, name, values)
                values = values if prepared is None else prepared
            with torch.no_grad():
                tensor.copy_(torch.from_numpy(values))


def save(rng, family, folder):
    """A checkpoint in `folder`, complete, as the library saves it and the family publishes it."""
    (folder / "config.json").write_text(json.dumps(family.config, indent=2) + "\n")
    config = transformers.AutoConfig.from_pretrained(folder)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    model = family.auto.from_config(config, dtype=torch.float32)
    fill(rng, family, model)
    with tempfile.TemporaryDirectory() as saved:
        model.save_pretrained(saved)
        tensors = load_file(pathlib.Path(saved, "model.safetensors"))
    if family.publish is not None:
        tensors = family.publish(rng, tensors)
    save_file(dict(sorted(tensors.items())), folder / "model.safetensors", {"format": "pt"})


def routes_of(output, top_k):
    """Logits, weights and experts from what a router returns."""
    if len(output) == 3:
        logits, weights, experts = output
    else:  # Llama 4: the scores of all experts, those of the others being zero, and the logits
        scores, logits = output
        weights, experts = scores.topk(top_k)
    return logits, weights, experts


def load(family, folder):
    """The model of the checkpoint in `folder`, all of whose tensors the library must know and find."""
    options = {}
    if "quantization_config" in family.config:
        kept = family.config["quantization_config"]["modules_to_not_convert"]
        options["quantization_config"] = transformers.Mxfp4Config(dequantize=True, modules_to_not_convert=kept)
    model, info = family.auto.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager",
                                              experts_implementation="eager", output_loading_info=True, **options)
    strange = {key: names for key, names in info.items() if names}
    if strange:
        raise Mismatch(f"the library loads what was saved with {strange}")
    return model.eval()


def record(rng, family, folder):
    """What the blocks of the checkpoint in `folder` make of random rows: a map of arrays."""
    recorded = {}
    token_ids = rng.integers(0, VOCABULARY, TOKENS, dtype=np.int32)
    for layer, block in blocks_of(load(family, folder)):
        hidden = rng.standard_normal((TOKENS, family.text["hidden_size"])).astype(np.float32)
        arguments = [torch.from_numpy(hidden)[None]]
        if "input_ids" in inspect.signature(block.forward).parameters:
            arguments.append(torch.from_numpy(token_ids).long()[None])
            recorded["token_ids"] = token_ids
        routed = []
        router = block.gate if hasattr(block, "gate") else block.router
        hook = router.register_forward_hook(lambda _, inputs, output, to=routed: to.append(output))
        with torch.no_grad():
            output = block(*arguments)
        hook.remove()
        output = output[0] if isinstance(output, tuple) else output
        logits, weights, experts = routes_of(routed[0], family.text["num_experts_per_tok"])
        for what, values in (("hidden_in", hidden), ("hidden_out", output.reshape(TOKENS, -1).numpy()),
                             ("router_logits", logits.numpy()), ("expert_ids", experts.numpy().astype(np.int32)),
                             ("expert_weights", weights.numpy())):
            recorded[f"layer.{layer}.{what}"] = values
    return recorded


# --- The same from the manifest ---------------------------------------------------------------------------------------


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    powers = np.exp(x - x.max())
    return powers / powers.sum()


def highest(ranks, count):
    """The highest ones' indices: value descending, index ascending."""
    return np.argsort(-ranks, kind="stable")[:count]


SCORINGS = {"softmax": softmax, "sigmoid": sigmoid, "sqrt_softplus": lambda x: np.sqrt(np.log1p(np.exp(x)))}
GROUP_SCORES = {"max": lambda ranks: ranks.max(axis=1),
                "top2_sum": lambda ranks: np.sort(ranks, axis=1)[:, -2:].sum(axis=1)}


def activate(spec, gate, up):
    """What a manifest's activation makes of the two products; `gate` is None where there is none."""
    if spec["kind"] == "relu2":
        return np.maximum(up, 0)**2
    if spec["kind"] == "swiglu":
        return gate * sigmoid(gate) * up
    gate, up = np.minimum(gate, spec["limit"]), np.clip(up, -spec["limit"], spec["limit"])
    if spec["kind"] == "swiglu_preclamp":
        return gate * sigmoid(gate) * up
    if spec["kind"] == "swiglu_oai":
        return gate * sigmoid(spec["alpha"] * gate) * (up + 1)
    raise ValueError(f"unknown activation {spec['kind']}")


def layers_of(words):
    """The layers of a manifest's list: numbers and ranges."""
    layers = []
    for word in words:
        first, _, last = str(word).partition("-")
        layers.extend(range(int(first), int(last or first) + 1))
    return layers


class Block:
    """One layer's MoE block, in float64, from a manifest's fields and a checkpoint's tensors alone."""

    def __init__(self, manifest, tensors, layer):
        self.moe = manifest["moe"]
        self.router = self.moe["router"]
        self.rows = manifest["weights"]["tensors"]
        self.tensors = tensors
        self.layer = layer
        table = self.router["token_table"]
        self.tabled = table != "none" and layer in layers_of(table["layers"])

    def stored(self, pattern):
        """One tensor; a stack of them where the name tells experts apart."""
        name = pattern.replace("{layer}", str(self.layer))
        if "{expert}" not in name:
            return self.tensors[name]
        return np.stack([self.tensors[name.replace("{expert}", str(i))] for i in range(self.moe["experts"])])

    def tensor(self, role):
        """A role's values: experts first, outputs before inputs. None where the manifest has no such role."""
        row = self.rows.get(role)
        if row is None:
            return None
        values = self.stored(row["name"])
        if row["dtype"] == "mxfp4":  # the low half of a byte first, 32 values to a scale
            codes = np.stack([E2M1[values & 15], E2M1[values >> 4]], axis=-1).reshape(*values.shape[:-1], 32)
            scales = 2.0**(self.stored(row["scale"]["name"]).astype(np.float64) - 127)
            values = (codes * scales[..., None]).reshape(*values.shape[:-2], -1)
        axes = (["experts"] if "{expert}" in row["name"] else []) + row["shape"]
        hidden_first = role in ("down", "shared_down")
        rank = {"experts": 0, "hidden": 1 if hidden_first else 2}
        order = sorted(range(len(axes)), key=lambda i: rank.get(axes[i], 2 if hidden_first else 1))
        return np.transpose(values, order).astype(values.dtype if values.dtype == np.int64 else np.float64)

    def halves(self, prefix, suffix=""):
        """Gate and up, from tensors of their own or from one that holds both."""
        both = self.tensor(f"{prefix}gate_up{suffix}")
        if both is None:
            return self.tensor(f"{prefix}gate{suffix}"), self.tensor(f"{prefix}up{suffix}")
        axis = both.ndim - (1 if suffix else 2)
        if self.rows[f"{prefix}gate_up{suffix}"]["layout"] == "halves":
            return np.split(both, 2, axis=axis)
        return tuple(np.take(both, range(start, both.shape[axis], 2), axis=axis) for start in (0, 1))

    def logits(self, hidden):
        logits = hidden @ self.tensor("router").T
        return logits + self.tensor("router_bias") if self.router["logit_bias"] == "tensor" else logits

    def sparsemixer(self, logits, reach):
        left, experts, weights = logits.copy(), [], []
        for _ in range(self.moe["experts_per_token"]):
            best = highest(left, 1)[0]
            with np.errstate(invalid="ignore"):
                far = (left[best] - left) / np.maximum(np.abs(logits), left[best]) > reach
            experts.append(best)
            weights.append(softmax(np.where(far, -np.inf, left))[best])
            left[best] = -np.inf
        return np.array(experts), np.array(weights)

    def ranks(self, scores):
        """What the selection looks at: scores with their bias, experts outside the kept groups excluded."""
        if self.router["selection_bias"] == "tensor":
            scores = scores + self.tensor("selection_bias")
        rule = self.router["groups"]
        if rule == "none":
            return scores
        groups = scores.reshape(rule["count"], -1)
        kept = highest(GROUP_SCORES[rule["score"]](groups), rule["keep"])
        ranks = np.full_like(groups, -np.inf)
        ranks[kept] = groups[kept]
        return ranks.reshape(-1)

    def route(self, logits, token_id):
        """The experts of one row and their weights, in the order of the selection."""
        top_k, scoring = self.moe["experts_per_token"], self.router["scoring"]
        if isinstance(scoring, dict):
            return self.sparsemixer(logits, 2 * scoring["sparsemixer"]["eps"])
        if self.router["order"] == "topk_then_score":
            experts = highest(logits, top_k)
            weights = SCORINGS[scoring](logits[experts])
        else:
            scores = SCORINGS[scoring](logits)
            experts = self.tensor("token_table")[token_id] if self.tabled else highest(self.ranks(scores), top_k)
            weights = scores[experts]
        rule = self.router["renormalize"]
        if rule == "sum":
            weights = weights / weights.sum()
        elif rule != "none":
            weights = weights / (weights.sum() + rule["sum_plus"]["guard"])
        return experts, weights * self.router["scale"]

    def mlp(self, x, gate, up, down):
        """Of one expert; each of gate, up and down is (matrix, bias or None)."""

        def product(parameters, rows):
            matrix, bias = parameters
            if matrix is None:
                return None
            return matrix @ rows + (0 if bias is None else bias)

        return product(down, activate(self.moe["activation"], product(gate, x), product(up, x)))

    def forward(self, hidden, routes):
        (gate, up), down = self.halves(""), self.tensor("down")
        biases = (*self.halves("", "_bias"), self.tensor("down_bias"))
        at_input = self.router["weight_applied"] == "input"
        result = np.zeros_like(hidden)
        for row, (experts, weights) in enumerate(routes):
            for expert, weight in zip(experts, weights):
                parameters = [(None if matrix is None else matrix[expert], None if bias is None else bias[expert])
                              for matrix, bias in zip((gate, up, down), biases)]
                x = hidden[row] * weight if at_input else hidden[row]
                result[row] += self.mlp(x, *parameters) * (1 if at_input else weight)
        return result + self.shared(hidden)

    def shared(self, hidden):
        if self.moe["shared_expert"] == "none":
            return 0
        (gate, up), down = self.halves("shared_"), self.tensor("shared_down")
        result = np.stack([self.mlp(x, (gate, None), (up, None), (down, None)) for x in hidden])
        if self.moe["shared_expert"]["gate"] == "sigmoid":
            result = result * sigmoid(hidden @ self.tensor("shared_expert_gate").reshape(-1, 1))
        return result


def check_layer(rng, block, recorded, token_ids):
    """Computes a layer again, and puts its recorded experts into the order of the selection. The largest error."""
    hidden = recorded["hidden_in"].astype(np.float64)
    logits = block.logits(hidden)
    routes = [block.route(row, token) for row, token in zip(logits, token_ids)]
    for row, (experts, _) in enumerate(routes):
        ids, weights = recorded["expert_ids"][row], recorded["expert_weights"][row]
        if sorted(ids) != sorted(experts):
            raise Mismatch(f"layer {block.layer}, row {row}: the library chose {ids}, the manifest says {experts}")
        order = [list(ids).index(expert) for expert in experts]
        ids[:], weights[:] = ids[order], weights[order]
        for _ in range(8):
            moved = logits[row] + SHIFT * rng.uniform(-1, 1, logits[row].shape)
            if list(block.route(moved, token_ids[row])[0]) != list(experts):
                raise Mismatch(f"layer {block.layer}, row {row}: near a tie, other random values are needed")
    largest = 0.0
    for what, values in (("router_logits", logits), ("expert_weights", np.stack([weights for _, weights in routes])),
                         ("hidden_out", block.forward(hidden, routes))):
        error = np.abs(recorded[what] - values).max() / np.abs(values).max()
        if not error <= TOLERANCE:
            raise Mismatch(f"layer {block.layer}, {what}: {error:.2g} of the largest value apart")
        largest = max(largest, error)
    return largest


def check(rng, manifest, tensors, recorded):
    """Checks every layer of `recorded`; the largest error."""
    if "overrides" in manifest or manifest["moe"]["residual"] != "none":
        raise Mismatch("the manifest has overrides or a residual, which this file does not compute")
    words = manifest["moe"]["layers"]
    layers = list(range(manifest["model"]["layers"])) if words == "all" else layers_of(words)
    found = sorted(int(name.split(".")[1]) for name in recorded if name.endswith("hidden_in"))
    if layers != found:
        raise Mismatch(f"MoE layers: the manifest has {layers}, the model has {found}")
    token_ids = recorded.get("token_ids", np.zeros(TOKENS, np.int32))
    return max(check_layer(rng, Block(manifest, tensors, layer),
                           {name.removeprefix(f"layer.{layer}."): values for name, values in recorded.items()},
                           token_ids) for layer in layers)


# --- All of it --------------------------------------------------------------------------------------------------------


def of_blocks(tensors, config):
    """The tensors of the MoE layers' blocks: what lies beside a router."""
    prefixes = {re.match(r"(.*layers\.\d+\.[a-z_]+\.)(gate|router)(\.layer)?\.weight$", name) for name in tensors}
    prefixes = tuple(match.group(1) for match in prefixes if match)
    if not prefixes:
        raise Mismatch(f"{config['model_type']}: no router among the saved tensors")
    return {name: values for name, values in sorted(tensors.items()) if name.startswith(prefixes)}


def write(name, output, program):
    """Records a family into output/name. One line of what was found."""
    family = FAMILIES[name]()
    seed = zlib.crc32(name.encode())
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        whole, final = pathlib.Path(folder, "whole"), pathlib.Path(folder, name)
        whole.mkdir()
        final.mkdir()
        save(rng, family, whole)
        recorded = record(rng, family, whole)
        shutil.copy(whole / "config.json", final)
        tensors = of_blocks(load_file(whole / "model.safetensors"), family.config)
        save_file(tensors, final / "model.safetensors", {"format": "pt"})
        if family.manifest is None:
            subprocess.run([program, "import", "hf", name, "-o", final / "model.yaml"], cwd=folder, check=True)
        else:
            (final / "model.yaml").write_text(family.manifest)
        error = check(rng, yaml.safe_load((final / "model.yaml").read_text()), tensors, recorded)
        save_file(dict(sorted(recorded.items())), final / "recorded.safetensors",
                  {"made_by": f"transformers {transformers.__version__}, torch {torch.__version__}"})
        for file in final.iterdir():
            file.chmod(0o644)  # safetensors makes files for their owner alone
        shutil.rmtree(output / name, ignore_errors=True)
        shutil.copytree(final, output / name)
    size = sum(file.stat().st_size for file in (output / name).iterdir())
    return f"{name:18} {size / 1024:6.1f} KiB  within {error:.1e}"


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1], add_help=False)
    parser.add_argument("--family", action="append", choices=FAMILIES, default=[])
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "tests" / "data" / "oracles")
    parser.add_argument("--meshseal", type=pathlib.Path, default=ROOT / "build" / "release" / "bin" / "meshseal")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(FAMILIES))
        return 0
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    failed = False
    for name in arguments.family or FAMILIES:
        try:
            print(write(name, arguments.output, arguments.meshseal.resolve()))
        except (Mismatch, subprocess.CalledProcessError) as error:
            failed = True
            print(f"{name}: {error}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
