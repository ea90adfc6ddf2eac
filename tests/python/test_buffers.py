# SPDX-License-Identifier: Apache-2.0
"""Goal: keys and numbers reach the library as flat memory in every form an engine has them, with
and without numpy, and a wrong one is refused before anything is sent.

Method: the bytes behind the packed address are compared; numpy is taken away for some tests.
"""
import array
import ctypes

import numpy
import pytest

from kvsidecar import Misuse, _buffers

KEYS = bytes(range(64))


@pytest.fixture(params=["numpy", "plain"])
def maybe_numpy(request, monkeypatch):
    if request.param == "plain":
        monkeypatch.setattr(_buffers, "np", None)


def behind(packed, count_bytes):
    return ctypes.string_at(packed.address, count_bytes)


@pytest.mark.parametrize("keys, key_bytes", [
    (KEYS, 16),
    (bytearray(KEYS), 16),
    (memoryview(KEYS), 16),
    (array.array("B", KEYS), 16),
    ([KEYS[i:i + 16] for i in range(0, 64, 16)], None),
    (tuple(KEYS[i:i + 16] for i in range(0, 64, 16)), None),
    (memoryview(bytes(b for pair in zip(KEYS, KEYS) for b in pair))[::2], 16),
])
def test_keys_of_any_form_lie_end_to_end(keys, key_bytes, maybe_numpy):
    packed = _buffers.pack_keys(keys, key_bytes)
    assert (packed.key_bytes, packed.length) == (16, 4)
    assert behind(packed, 64) == KEYS


def test_a_row_of_an_array_is_a_key():
    rows = numpy.frombuffer(KEYS, dtype=numpy.uint8).reshape(4, 16)
    assert _buffers.pack_keys(rows)[2:] == (16, 4)
    apart = numpy.zeros((4, 32), dtype=numpy.uint8)
    apart[:, :16] = rows
    assert behind(_buffers.pack_keys(apart[:, :16]), 64) == KEYS
    words = rows.view(numpy.uint64)
    assert behind(_buffers.pack_keys(words), 64) == KEYS


@pytest.mark.parametrize("keys, key_bytes, word", [
    ([], None, "one or more"),
    ([b"a", b"bb"], None, r"\[1, 2\]"),
    ([b""], None, "1 to 64"),
    ([b"a" * 65], None, "1 to 64"),
    (b"abc", 2, "3 bytes"),
    (b"", 2, "0 bytes"),
    (b"abcd", None, "key_bytes is missing"),
    (12, 4, "int"),
])
def test_wrong_keys_are_refused_by_name(keys, key_bytes, word, maybe_numpy):
    with pytest.raises(Misuse, match=word):
        _buffers.pack_keys(keys, key_bytes)


@pytest.mark.parametrize("numbers", [[1, 2, 3], (1, 2, 3), range(1, 4),
                                     array.array("I", [1, 2, 3])])
def test_numbers_of_any_form_become_32_bits(numbers, maybe_numpy):
    packed = _buffers.pack_numbers(numbers, 4, "blocks")
    assert packed.length == 3
    assert behind(packed, 12) == array.array("I", [1, 2, 3]).tobytes()


def test_numbers_of_another_width_are_converted_where_numpy_is():
    packed = _buffers.pack_numbers(numpy.array([1, 2, 3], dtype=numpy.int64), 4, "blocks")
    assert behind(packed, 12) == array.array("I", [1, 2, 3]).tobytes()
    with pytest.raises(Misuse, match="outside"):
        _buffers.pack_numbers(numpy.array([1 << 32]), 4, "blocks")
    with pytest.raises(Misuse, match="float64"):
        _buffers.pack_numbers(numpy.array([1.5]), 4, "blocks")


@pytest.mark.parametrize("numbers, word", [
    ([-1], "outside 0 to 4294967295"), ((1 << 32,), "outside"), ([1.5], "float"), (["1"], "str")])
def test_wrong_numbers_are_refused(numbers, word, maybe_numpy):
    with pytest.raises(Misuse, match="blocks.*" + word):
        _buffers.pack_numbers(numbers, 4, "blocks")


def test_a_list_of_an_arrays_integers_is_numbers():
    packed = _buffers.pack_numbers(list(numpy.array([1, 2, 3], dtype=numpy.int64)), 4, "blocks")
    assert behind(packed, 12) == array.array("I", [1, 2, 3]).tobytes()


def test_a_uint32_array_is_not_copied():
    blocks = numpy.arange(8, dtype=numpy.uint32)
    assert _buffers.pack_numbers(blocks, 4, "blocks").address == blocks.ctypes.data


def test_answers_are_copies_in_either_form(maybe_numpy):
    source = (ctypes.c_uint8 * 3)(1, 2, 3)
    copied = _buffers.copied_bytes(ctypes.addressof(source), 3)
    source[0] = 9
    assert list(_buffers.as_array(copied)) == [1, 2, 3]
    assert len(_buffers.as_array(_buffers.copied_bytes(None, 3))) == 0
    assert [bool(b) for b in _buffers.as_bits(bytes((0b101, 0b1)), 9)] == [
        True, False, True, False, False, False, False, False, True]
