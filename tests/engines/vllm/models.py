# SPDX-License-Identifier: Apache-2.0
"""Tiny models with random weights, made by this script; nothing is downloaded.

    models.py FOLDER [NAME…]   writes FOLDER/NAME for each (default: those of the tests)

Weights come from a seed alone. Matrices have a standard deviation of 0.08: at transformers' own
0.02 so small a model says the same whatever its KV cache holds, and a wrong block would go unseen.
"""
import json
import os
import sys

STD = 0.08
SEED = 1234
VOCABULARY = 512
FIRST_WORD = 3  # below it: padding, begin, end

COMMON = dict(vocab_size=VOCABULARY, hidden_size=128, intermediate_size=256, num_hidden_layers=4,
              num_attention_heads=2, num_key_value_heads=1, head_dim=64,
              max_position_embeddings=4096, tie_word_embeddings=False, bos_token_id=1,
              eos_token_id=2, pad_token_id=0)
WINDOW = 64
GEMMA_LAYERS = (["sliding_attention"] * 2 + ["full_attention"]) * 2

# name: (class of transformers' configurations, what differs from COMMON)
SHAPES = {
    "llama": ("LlamaConfig", {}),
    # Heads for two ranks.
    "llama-heads": ("LlamaConfig", dict(num_attention_heads=4, num_key_value_heads=2, head_dim=32)),
    # Recomputing a prefix of it takes long enough here to be worth measuring.
    "llama-large": ("LlamaConfig", dict(hidden_size=1024, intermediate_size=2816,
                                        num_hidden_layers=8, num_attention_heads=16,
                                        num_key_value_heads=4)),
    # Its blocks are large enough for a copy to be caught in.
    "llama-wide": ("LlamaConfig", dict(num_hidden_layers=2, num_attention_heads=8,
                                       num_key_value_heads=8, head_dim=128)),
    "gemma3": ("Gemma3TextConfig", dict(num_hidden_layers=6, sliding_window=WINDOW,
                                        layer_types=GEMMA_LAYERS, query_pre_attn_scalar=64)),
    "gptoss": ("GptOssConfig", dict(sliding_window=WINDOW, num_local_experts=4,
                                    num_experts_per_tok=2)),
    "qwen3next": ("Qwen3NextConfig", dict(
        num_key_value_heads=2, head_dim=128, linear_num_value_heads=2, linear_num_key_heads=2,
        linear_key_head_dim=64, linear_value_head_dim=64, num_experts=4, num_experts_per_tok=2,
        moe_intermediate_size=64, shared_expert_intermediate_size=64,
        layer_types=["linear_attention", "full_attention"] * 2)),
}
# The same shape with other weights: what a new version under the same name is.
OTHER = "-other"
MEASURED = "llama-large"  # by the benchmark alone
MODELS = [name for name in SHAPES if name != MEASURED] + [
    name + OTHER for name in ("llama", "gemma3", "gptoss", "qwen3next")]


def make_weights(folder, name):
    import torch
    import transformers
    kind, differs = SHAPES[name.removesuffix(OTHER)]
    config = getattr(transformers, kind)(**{**COMMON, **differs})
    config.dtype = torch.float32
    torch.manual_seed(SEED + name.endswith(OTHER))
    model = transformers.AutoModelForCausalLM.from_config(config).float()
    gain = 0.0 if kind.startswith("Gemma") else 1.0  # Gemma's norms multiply by 1 + weight
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if "norm" in parameter_name:
                parameter.fill_(gain)
            elif parameter.dim() >= 2:
                parameter.normal_(0, STD)
    model.save_pretrained(folder, safe_serialization=True)


def make_tokenizer(folder):
    """Token n is the word "wn": prompts can be given as text, too."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    words = {"<pad>": 0, "<s>": 1, "</s>": 2}
    words.update((f"w{i}", i) for i in range(FIRST_WORD, VOCABULARY))
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>",
                            eos_token="</s>", unk_token="<pad>").save_pretrained(folder)


def make(folder, name):
    """Under a temporary name first: a folder that is there is whole."""
    path = os.path.join(folder, name)
    if os.path.exists(path):
        return
    work = f"{path}.{os.getpid()}"
    os.makedirs(work, exist_ok=True)
    make_weights(work, name)
    make_tokenizer(work)
    with open(os.path.join(work, "config.json"), encoding="utf-8") as file:
        assert json.load(file)["vocab_size"] == VOCABULARY
    os.rename(work, path)


def main():
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", OMP_NUM_THREADS="1")
    for name in sys.argv[2:] or MODELS:
        make(sys.argv[1], name)


if __name__ == "__main__":
    main()
