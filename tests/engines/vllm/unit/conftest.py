# SPDX-License-Identifier: Apache-2.0
"""Real requests, caches and configurations of the installed vLLM, without an engine."""
import os
import sys

import pytest

os.environ.update(VLLM_NO_USAGE_STATS="1", DO_NOT_TRACK="1", HF_HUB_OFFLINE="1")
HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
sys.path += [os.path.join(TESTS, "python", "vllm"), os.path.join(TESTS, "harness"), HERE]

from vllm import SamplingParams  # noqa: E402
from vllm.utils.hashing import get_hash_fn_by_name  # noqa: E402
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash  # noqa: E402
from vllm.v1.request import Request  # noqa: E402

PAGE = 32


@pytest.fixture(scope="session")
def model():
    return os.path.join(os.environ["KVSIDECAR_MODELS"], "llama")


@pytest.fixture(params=["sha256_cbor", "sha256"])
def hash_algorithm(request, monkeypatch):
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    init_none_hash(get_hash_fn_by_name(request.param))
    return request.param


@pytest.fixture
def make_request(monkeypatch):
    """A Request with its block hashes, as the engine core makes it."""
    monkeypatch.setenv("PYTHONHASHSEED", "0")

    def make(tokens=None, algorithm="sha256_cbor", page=PAGE, request_id="r", **values):
        hash_function = get_hash_fn_by_name(algorithm)
        init_none_hash(hash_function)
        tokens = list(range(3, 3 + 4 * PAGE)) if tokens is None else tokens
        return Request(request_id, tokens, SamplingParams(max_tokens=4), None,
                       block_hasher=get_request_block_hasher(page, hash_function), **values)

    return make
