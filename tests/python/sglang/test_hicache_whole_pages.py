# SPDX-License-Identifier: Apache-2.0
"""Goal: SGLang's older interface works as well: pages as flat tensors, drafts under keys of their
own, whatever interface_v1 says.

Method: the calls of its generic page functions, with tensors of a few sizes.
"""
import hashlib

import numpy
import pytest

from hicache_scene import hashes
from host_pools import Mla, Tensor

OLD = {"interface_v1": 0}


def tensors(seed, count, size):
    random = numpy.random.default_rng(seed)
    return [Tensor(random.integers(0, 256, size, dtype=numpy.uint8)) for _ in range(count)]


def empty(count, size):
    return [Tensor(numpy.zeros(size, numpy.uint8)) for _ in range(count)]


@pytest.fixture
def old(daemon, open_backend):
    return open_backend(daemon, extra=OLD)


def test_pages_come_back_into_the_tensors_that_are_given(old):
    keys, size = hashes("a", 5), old.hosts["kv"].page_bytes
    values, targets = tensors(1, 5, size), empty(5, size)
    assert old.batch_exists(keys) == 0
    assert old.batch_set(keys, values) is True
    assert old.batch_exists(keys) == 5 and old.exists(keys[2])
    found = old.batch_get(keys, targets)
    assert found == targets
    assert [tensor.bytes() for tensor in targets] == [tensor.bytes() for tensor in values]


def test_a_missing_page_is_none_and_the_others_are_there(old):
    keys, size = hashes("a", 3), old.hosts["kv"].page_bytes
    values, targets = tensors(1, 2, size), empty(3, size)
    assert old.batch_set([keys[0], keys[2]], values) is True
    found = old.batch_get(keys, targets)
    assert found == [targets[0], None, targets[2]]
    assert targets[1].bytes() == bytes(size)


def test_single_pages_work_alike(old):
    (key,), size = hashes("a", 1), old.hosts["kv"].page_bytes
    (value,), (target,) = tensors(1, 1, size), empty(1, size)
    assert old.get(key, target) is None and old.exists(key) is False
    assert old.set(key, value) is True and old.exists(key) is True
    assert old.get(key, target) is target and target.bytes() == value.bytes()


def test_more_pages_than_the_buffer_holds_are_moved_in_turns(old):
    count, size = 200, old.hosts["kv"].page_bytes
    keys, values, targets = hashes("a", count), tensors(1, count, size), empty(count, size)
    assert old.batch_set(keys, values) is True
    assert old.batch_get(keys, targets) == targets
    assert [tensor.bytes() for tensor in targets] == [tensor.bytes() for tensor in values]


@pytest.mark.parametrize("interface", [0, 1])
def test_drafts_under_keys_of_their_own_come_back(daemon, open_backend, interface):
    backend = open_backend(daemon, extra={"interface_v1": interface})
    keys = [f"{key}.draft" for key in hashes("a", 3)]
    values, targets = tensors(1, 3, 300), empty(3, 300)
    assert backend.exists(keys[0]) is False
    assert backend.batch_set(keys, values) is True
    assert backend.exists(keys[0]) is True and backend.batch_exists(hashes("a", 3)) == 0
    assert backend.batch_get(keys, targets) == targets
    assert [tensor.bytes() for tensor in targets] == [tensor.bytes() for tensor in values]


def test_keys_that_are_no_hashes_are_told_apart(old):
    size = old.hosts["kv"].page_bytes
    keys = ["a", "b", "a" * 65, "é", hashlib.sha256(b"a").hexdigest().upper() + "!"]
    values, targets = tensors(1, len(keys), size), empty(len(keys), size)
    assert old.batch_set(keys, values) is True
    assert old.batch_get(keys, targets) == targets
    assert [tensor.bytes() for tensor in targets] == [tensor.bytes() for tensor in values]


def test_replicated_pages_are_stored_by_the_first_rank(daemon, open_backend):
    ranks = [open_backend(daemon, pools={"kv": Mla()}, extra=OLD, tp_rank=rank, tp_size=2,
                          is_mla_model=True) for rank in range(2)]
    keys, size = hashes("a", 2), ranks[0].hosts["kv"].page_bytes
    assert ranks[1].batch_set(keys, tensors(1, 2, size)) is True
    assert ranks[1].batch_exists(keys) == 0
    assert ranks[0].batch_set(keys, tensors(2, 2, size)) is True
    assert ranks[1].batch_exists(keys) == 2


@pytest.mark.parametrize("values", [None, [], [None, None], tensors(1, 1, 300)])
def test_values_that_do_not_match_the_keys_are_not_stored(old, values, caplog):
    assert old.batch_set(hashes("a", 2), values) is False
    assert old.batch_get(hashes("a", 2), values) == [None, None]
    assert "for 2 keys" in caplog.text


def test_a_copying_interface_is_told_to_the_operator(daemon, open_backend, caplog):
    open_backend(daemon, extra=OLD)
    assert '"interface_v1": 1' in caplog.text
