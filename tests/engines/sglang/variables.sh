# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# To be sourced with $prefix, an environment's folder: what its python needs, and everything that
# it starts. Nothing of it goes anywhere but to the folder.
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
export PYTHONPATH=$here/standins:$here:$(readlink -f "$here/../../../clients/python")
export SGLANG_CACHE_DIR=$prefix/cache TORCH_EXTENSIONS_DIR=$prefix/cache/extensions
export SGLANG_USE_CPU_ENGINE=0 # 1 would need kernels that PyPI doesn't have
export SGLANG_NCCL_SO_PATH=none # ranks would call the stand-in of NCCL, and believe what it says
export TORCH_COMPILE_DISABLE=1 # compiling a few lines for a tiny model takes half a minute
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=
