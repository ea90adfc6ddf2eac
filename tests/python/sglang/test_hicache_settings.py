# SPDX-License-Identifier: Apache-2.0
"""Goal: what an operator writes for HiCache is taken as meant or refused in words that help, and
what SGLang hands over wrongly is a miss that says what is wrong (O11: bad input).

Method: the reader of the extra config alone; then a backend with one wrong call each.
"""
import subprocess
import sys

import numpy
import pytest

from daemon import Daemon
from hicache_scene import LOADER, config, hashes
from host_pools import PAGE, HostPool, Logical, Mha
from kvsidecar import Misuse
from kvsidecar.plugin.settings import Number, Switch
from kvsidecar.sglang.hicache_settings import KEYS, SGLANG_KEYS, TRANSFER_MOST_S, HiCacheSettings
from kvsidecar.sglang.settings import COMMON
from sglang.srt.mem_cache.hicache_storage import PoolTransfer

HASHES = hashes("prompt", 3)


def refusal(**extra):
    with pytest.raises(Misuse) as caught:
        HiCacheSettings.read({**LOADER, **extra})
    return str(caught.value)


def test_nothing_has_to_be_set():
    found = HiCacheSettings.read(dict(LOADER))
    assert (found.lookup_deadline_s, found.lease_s) == (pytest.approx(0.020), 10)
    assert found.get_timeout_s + found.set_timeout_s < 10, "a detach joins threads for 10 s"
    assert (found.socket, found.revision, found.durable, found.interface_v1) == (
        None, None, False, True)
    assert not HiCacheSettings.read(None).interface_v1


def test_two_transfers_in_one_thread_end_before_a_detach_gives_up():
    assert 2 * TRANSFER_MOST_S < 10


def test_keys_are_taken_in_their_unit():
    found = HiCacheSettings.read({"lookup_deadline_ms": 5, "staging_mib": 3, "allocator": "shm"})
    assert (found.lookup_deadline_s, found.staging_bytes, found.allocator) == (
        pytest.approx(0.005), 3 << 20, "shm")


def test_keys_of_sglang_may_stay():
    known = {name: 1 for name, reason in SGLANG_KEYS.items() if reason is None}
    HiCacheSettings.read({**known, "allocator": "shm"})


@pytest.mark.parametrize("wrong, nearest", [
    ("sockett", "socket"), ("get_timeout", "get_timeout_s"), ("lease", "lease_s"),
    ("weight_version", "weights_version"), ("alocator", "allocator"),
    ("interface_V1", "interface_v1"), ("prefetch_treshold", "prefetch_threshold")])
def test_an_unknown_key_is_refused_naming_the_nearest(wrong, nearest):
    text = refusal(**{wrong: 7})
    assert f"{wrong} = 7" in text and f"did you mean {nearest}?" in text
    assert text.startswith("hicache_storage_backend_extra_config: ")


def test_a_reset_is_refused_with_what_does_its_work():
    text = refusal(on_reset="clear")
    assert "weights_version" in text and "/hicache/storage-backend/clear" in text


def test_a_key_of_the_hf3fs_backend_is_refused_with_what_does_its_work():
    assert "[store] kind and root" in refusal(use_mock_hf3fs_client=True)


def wrong_values():
    for name, (_, key) in {**COMMON, **KEYS}.items():
        wrong = [["a"], "", None] if not isinstance(key, (Number, Switch)) else [None, "1", ["a"]]
        if isinstance(key, Number):
            wrong += [True, key.least - 1, key.most + 1]
        yield from ((name, value) for value in wrong)


@pytest.mark.parametrize("name, value", list(wrong_values()))
def test_a_mistyped_value_is_refused_naming_key_and_remedy(name, value):
    text = refusal(**{name: value})
    assert f"{name} is " in text
    assert any(remedy in text for remedy in ("; give ", "; set it to ", "; it must be "))


def test_what_is_no_object_is_refused():
    with pytest.raises(Misuse, match="JSON object"):
        HiCacheSettings.read(["socket"])


def test_a_wrong_key_fails_the_attach(library):
    from kvsidecar.sglang import HiCache
    with pytest.raises(Misuse, match="did you mean socket"):
        HiCache(config("/nowhere", {"socke": "a"}), {})


# What SGLang might hand over.

def slots(*numbers):
    return numpy.array(numbers, numpy.int64)


@pytest.mark.parametrize("indices, sentence", [
    (slots(*range(4, 4 + 2 * PAGE)), "has 8 slots for 3 keys of 4 tokens"),
    (slots(*range(5, 5 + 3 * PAGE)), "aren't whole pages of 4 slots"),
    (slots(*reversed(range(4, 4 + 3 * PAGE))), "aren't whole pages of 4 slots"),
    (slots(*range(4, 4 + 2 * PAGE), 16, 17, 18, 20), "aren't whole pages of 4 slots"),
    (slots(*range(40, 40 + 3 * PAGE)), "the pool has slots 0 to 47"),
    (slots(*range(-4, 2 * PAGE)), "reach from -4"),
    (slots(*range(4, 4 + 3 * PAGE)).astype(float), "host_indices is float64"),
    (slots(*range(4, 4 + 3 * PAGE)).reshape(3, PAGE), "of 2 dimensions"),
    (None, "no host_indices")])
def test_indices_that_are_no_pages_are_misses_with_a_sentence(daemon, open_backend, caplog, indices,
                                                              sentence):
    backend = open_backend(daemon)
    pool = backend.hosts["kv"]
    before = pool.fill(1, *range(12))
    assert backend.batch_set_v1(HASHES, indices) == [False] * 3
    assert backend.batch_get_v1(HASHES, indices) == [False] * 3
    assert backend.batch_get_v2([PoolTransfer("kv", indices, keys=HASHES)]) == {"kv": [False] * 3}
    assert sentence in caplog.text and backend.batch_exists(HASHES) == 0
    assert [pool.page(number) for number in range(12)] == before


def test_a_pool_that_was_never_registered_is_a_miss_with_a_sentence(daemon, open_backend, caplog):
    backend = open_backend(daemon)
    moved = [PoolTransfer("swa", slots(*range(12)), keys=HASHES)]
    assert backend.batch_set_v2(moved) == {"swa": [False] * 3}
    assert backend.batch_get_v2(moved) == {"swa": [False] * 3}
    assert "pool swa isn't registered" in caplog.text


def test_one_wrong_pool_of_a_call_leaves_the_others_alone(daemon, open_backend):
    pools = {"kv": Mha(), "swa": Mha()}
    backend = open_backend(daemon, pools=pools)
    stored = backend.batch_set_v2([
        PoolTransfer("nothing", slots(*range(12)), keys=HASHES),
        PoolTransfer("kv", None, keys=HASHES),
        PoolTransfer("swa", pools["swa"].slots(1, 2, 3), keys=HASHES)])
    assert stored == {"nothing": [False] * 3, "kv": [False] * 3, "swa": [True] * 3}


def test_more_pools_than_a_query_takes_are_told_and_count_as_not_stored(daemon, open_backend,
                                                                        caplog):
    pools = {"kv": Mha(), **{f"side {i}": Mha(head_dim=4) for i in range(16)}}
    backend = open_backend(daemon, pools=pools)
    asked = [PoolTransfer(name, indices_from_pool="kv") for name in pools if name != "kv"]
    assert backend.batch_exists_v2(HASHES, asked).kv_hit_pages == 0
    assert sum("a query for stored pages wasn't answered: INVALID" in text
               for text in caplog.messages) == 1


def test_a_peer_that_may_not_store_is_told_why(tmp_path, open_backend, caplog):
    with Daemon(tmp_path / "node", permissions=["read"]) as node:
        backend = open_backend(node)
        pool = backend.hosts["kv"]
        for _ in range(3):
            assert backend.batch_set_v1(HASHES, pool.slots(1, 2, 3)) == [False] * 3
        assert sum("DENIED" in text for text in caplog.messages) == 1


def test_the_log_is_not_filled_by_sentences_that_differ(daemon, open_backend, monkeypatch, caplog):
    monkeypatch.setattr("kvsidecar.sglang.session.TOLD_MAX", 5)
    backend = open_backend(daemon)
    for page in range(20):
        assert backend.batch_set_v1(HASHES[:1], slots(*range(100 + page * 4, 104 + page * 4))) == [
            False]
    assert sum("host_indices reach" in text for text in caplog.messages) <= 5


@pytest.mark.parametrize("call", [
    lambda backend: backend.batch_get_v1(None, None), lambda backend: backend.batch_exists(None),
    lambda backend: backend.batch_set_v1(None, None),
    lambda backend: backend.batch_get(None, None)])
def test_no_list_of_keys_at_all_raises_nothing(daemon, open_backend, call):
    assert call(open_backend(daemon)) in ([], 0)


def test_nothing_is_registered_and_nothing_is_found(daemon, open_backend, caplog):
    backend = open_backend(daemon, pools={})
    assert backend.batch_exists(HASHES) == 0
    assert backend.batch_get_v1(HASHES, slots(*range(12))) == [False] * 3
    assert "pool kv isn't registered" in caplog.text


def test_a_pool_registered_twice_is_the_same_and_with_another_shape_is_not_used(
        daemon, open_backend, caplog):
    backend = open_backend(daemon)
    pool = backend.hosts["kv"]
    backend.register_mem_pool_host(pool)
    assert backend.batch_set_v1(HASHES, pool.slots(1, 2, 3)) == [True] * 3
    moved = Mha()  # in other memory
    backend.register_mem_pool_host(moved)
    assert backend.batch_get_v1(HASHES, moved.slots(1, 2, 3)) == [True] * 3
    assert [moved.page(n) for n in (1, 2, 3)] == [pool.page(n) for n in (1, 2, 3)]
    other = Mha(head_dim=16, pages=5)
    backend.register_mem_pool_host(other)
    assert backend.batch_get_v1(HASHES, other.slots(1, 2, 3)) == [False] * 3
    assert "with 12 pages of 4 tokens" in caplog.text and "again with 5 of 4" in caplog.text


def test_a_page_size_that_changes_after_registration_is_noticed(daemon, open_backend, caplog):
    backend = open_backend(daemon)
    pool = backend.hosts["kv"]
    given = pool.slots(1, 2, 3)
    pool.page_size = 2
    assert backend.batch_set_v1(HASHES, given) == [False] * 3
    assert "pages of 2 tokens now, it had 4" in caplog.text


class Crooked(HostPool):
    """One page lies elsewhere than the first two say."""

    def __init__(self, crooked):
        self._crooked = crooked
        super().__init__()

    def _lay_out(self):
        self._allocate(4096)
        self.segments = [(0, 0, 64, 64)]

    def get_page_buffer_meta(self, indices):
        addresses, sizes = super().get_page_buffer_meta(indices)
        shift = 64 if indices.tolist()[0] == self._crooked * self.page_size else 0
        return [address + shift for address in addresses], sizes


@pytest.mark.parametrize("crooked", [6, 11])
def test_addresses_that_no_page_number_explains_are_not_relied_on(daemon, open_backend, caplog,
                                                                 crooked):
    caplog.set_level("INFO")
    pool = Crooked(crooked)
    backend = open_backend(daemon, pools={"kv": pool})
    want = pool.fill(1, 1, 2, 11)
    assert backend.batch_set_v1(HASHES, pool.slots(1, 2, 11)) == [True] * 3
    assert backend.batch_get_v1(HASHES, pool.slots(3, 4, 5)) == [True] * 3
    assert [pool.page(number) for number in (3, 4, 5)] == want
    assert "doesn't lie at one distance" in caplog.text


def test_a_call_with_keys_of_two_kinds_is_a_miss(daemon, open_backend, caplog):
    backend = open_backend(daemon)
    pool = backend.hosts["kv"]
    assert backend.batch_set_v1([HASHES[0], "another"], pool.slots(1, 2)) == [False, False]
    assert backend.batch_exists(HASHES[:1] + [" " * 64]) == 0
    assert "give one kind a call" in caplog.text


def test_an_anchor_is_told_from_a_pool_that_has_lost_its_memory(daemon, open_backend):
    pool = Mha()
    backend = open_backend(daemon, pools={"kv": pool})
    pool.kv_buffer = None  # as after SGLang's destroy
    assert backend.batch_exists(HASHES) == 0
    assert open_backend(daemon, pools={"kv": Logical()}).batch_exists(HASHES) == 3


def test_importing_the_package_needs_no_sglang():
    found = subprocess.run(
        [sys.executable, "-c", "import sys; sys.path[:0] = sys.argv[1:]\nimport kvsidecar.sglang\n"
         "assert 'sglang' not in sys.modules and 'torch' not in sys.modules"] + sys.path,
        check=False, capture_output=True, text=True, timeout=60)
    assert found.returncode == 0, found.stderr
