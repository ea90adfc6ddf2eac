# SPDX-License-Identifier: Apache-2.0
"""Tiny models with random weights, made by this script; nothing is downloaded.

    models.py FOLDER [NAME…]   writes FOLDER/NAME for each (default: all)

Weights come from a seed alone. Matrices have a standard deviation of 0.08: at transformers' own
0.02, or with SGLang's load_format "dummy", so small a model says the same whatever its KV cache
holds, and a wrong page would go unseen.
"""
import json
import os
import sys

STD = 0.08
SEED = 4321
VOCABULARY = 512
WINDOW = 128  # tokens of sliding-window attention, two pages
LAYERS = 4

COMMON = dict(vocab_size=VOCABULARY, hidden_size=128, intermediate_size=256,
              num_hidden_layers=LAYERS, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
              max_position_embeddings=4096, tie_word_embeddings=False, bos_token_id=1,
              eos_token_id=2, pad_token_id=0)

# name: (class of transformers' configurations, what differs from COMMON)
SHAPES = {
    "llama": ("LlamaConfig", {}),
    # Layers with a sliding window have a pool of their own.
    "mellum": ("MellumConfig", dict(sliding_window=WINDOW,
                                    layer_types=["sliding_attention", "full_attention"] * 2,
                                    mlp_layer_types=["dense"] * LAYERS)),
    # Latent attention: every rank has the same pages. SGLang has only YaRN for it on a CPU.
    "deepseek2": ("DeepseekV2Config", dict(
        num_key_value_heads=4, kv_lora_rank=64, q_lora_rank=None, qk_nope_head_dim=32,
        qk_rope_head_dim=32, v_head_dim=32, first_k_dense_replace=LAYERS, moe_layer_freq=1,
        rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=2.0, mscale=1.0,
                             mscale_all_dim=1.0, original_max_position_embeddings=2048))),
}
# The same shape with other weights: what a new version under the same name is.
OTHER = "-other"
MODELS = [*SHAPES, "llama" + OTHER]


def make_weights(folder, name):
    import torch
    import transformers
    kind, differs = SHAPES[name.removesuffix(OTHER)]
    config = getattr(transformers, kind)(**{**COMMON, **differs})
    config.dtype = torch.float32
    torch.manual_seed(SEED + name.endswith(OTHER))
    model = transformers.AutoModelForCausalLM.from_config(config).float()
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if "norm" in parameter_name:
                parameter.fill_(1.0)
            elif parameter.dim() >= 2:
                parameter.normal_(0, STD)
    model.save_pretrained(folder, safe_serialization=True)


def make(folder, name):
    """Under a temporary name first: a folder that is there is whole."""
    path = os.path.join(folder, name)
    if os.path.exists(path):
        return
    work = f"{path}.{os.getpid()}"
    os.makedirs(work, exist_ok=True)
    make_weights(work, name)
    with open(os.path.join(work, "config.json"), encoding="utf-8") as file:
        assert json.load(file)["vocab_size"] == VOCABULARY
    os.rename(work, path)


def main():
    for name in sys.argv[2:] or MODELS:
        make(sys.argv[1], name)


if __name__ == "__main__":
    main()
