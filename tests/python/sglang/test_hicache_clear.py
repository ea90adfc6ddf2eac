# SPDX-License-Identifier: Apache-2.0
"""Goal: after new weights under an old name no page of the old ones is loaded, by anybody; engines
that go on with the old ones are kept apart.

Method: backends over one daemon; weights change as an operator would tell: by clear after an
update, by weights_version, by the model's files.
"""
import os
import struct
import types

import pytest

import kvsidecar
import sglang.srt.runtime_context as runtime
from hicache_scene import hashes
from host_pools import Mha
from kvsidecar import Client, Status
from sglang.srt.mem_cache.hicache_storage import PoolTransfer
from waiting import eventually

KEYS = hashes("prompt", 3)
HERE, THERE = (1, 2, 3), (7, 8, 9)


def store(backend, seed=1):
    pool = backend.hosts["kv"]
    content = pool.fill(seed, *HERE)
    return content, backend.batch_set_v1(KEYS, pool.slots(*HERE)) == [True] * 3


def load(backend):
    pool = backend.hosts["kv"]
    done = backend.batch_get_v1(KEYS, pool.slots(*THERE))
    return [pool.page(number) if one else None for number, one in zip(THERE, done)]


def open_ranks(open_backend, daemon, count):
    return [open_backend(daemon, pools={"kv": Mha()}, tp_rank=rank, tp_size=count)
            for rank in range(count)]


def test_cleared_pages_are_gone_and_new_ones_take_their_place(daemon, open_backend):
    backend = open_backend(daemon)
    assert store(backend, 1)[1]
    backend.clear()
    assert backend.batch_exists(KEYS) == 0 and load(backend) == [None] * 3
    want, done = store(backend, 2)
    assert done and load(backend) == want


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_all_ranks_go_on_after_a_clear_whichever_comes_first(daemon, open_backend, order):
    both = open_ranks(open_backend, daemon, 2)
    assert all([store(backend, rank)[1] for rank, backend in enumerate(both)])
    for rank in order:
        both[rank].clear()
    assert [load(backend) for backend in both] == [[None] * 3] * 2
    eventually(lambda: all([store(backend, 5 + rank)[1] for rank, backend in enumerate(both)]),
               "both store again")
    want = [store(backend, 5 + rank)[0] for rank, backend in enumerate(both)]
    eventually(lambda: [backend.batch_exists(KEYS) for backend in both] == [3, 3], "whole pages")
    assert [load(backend) for backend in both] == want


def test_replicas_that_clear_one_after_the_other_meet_in_the_same_pages(daemon, open_backend):
    replicas = [open_backend(daemon, pools={"kv": Mha()}) for _ in range(2)]
    assert store(replicas[0], 1)[1]
    for replica in replicas:
        replica.clear()
    assert [load(replica) for replica in replicas] == [[None] * 3] * 2
    eventually(lambda: store(replicas[0], 2)[1], "the first, whose attachment the second's clear "
               "has ended, stores again")
    assert load(replicas[1]) == store(replicas[0], 2)[0]


def test_an_engine_that_somebody_else_cleared_stays_out_and_says_why(daemon, open_backend, caplog):
    old = open_backend(daemon, pools={"kv": Mha()})
    assert store(old, 1)[1]
    with kvsidecar.Client(daemon.socket) as operator:
        space = old.session.namespace("kv").namespace_id
        assert operator.clear(space).result().ok
    assert not store(old, 1)[1] and load(old) == [None] * 3 and old.batch_exists(KEYS) == 0
    assert sum("somebody else has cleared" in text for text in caplog.messages) == 1
    fresh = open_backend(daemon, pools={"kv": Mha()})
    assert fresh.batch_exists(KEYS) == 0
    old.clear()  # the operator has now told it that its weights are the new ones
    eventually(lambda: store(old, 2)[1], "it goes on")


def test_a_clear_removes_also_what_others_have_stored_since_an_earlier_one(daemon, open_backend):
    """The weights are new here alone, and somebody has cleared long before that."""
    backend = open_backend(daemon, pools={"kv": Mha()})
    assert store(backend, 1)[1]
    with kvsidecar.Client(daemon.socket) as operator:
        assert operator.clear(backend.session.namespace("kv").namespace_id).result().ok
    old = open_backend(daemon, pools={"kv": Mha()})
    assert store(old, 1)[1]
    backend.clear()
    assert backend.batch_exists(KEYS) == 0 and load(backend) == [None] * 3


def test_another_version_of_the_weights_finds_nothing_of_the_first(daemon, open_backend):
    first = open_backend(daemon, pools={"kv": Mha()})
    second = open_backend(daemon, pools={"kv": Mha()}, extra={"weights_version": "2"})
    want, done = store(first)
    assert done and second.batch_exists(KEYS) == 0 and load(second) == [None] * 3
    assert load(first) == want


def weights(version):
    """SGLang's own account of what it has loaded, as each update that names one changes it."""
    runtime.get_context()._resolved["weight_version"] = version


def test_weights_with_another_version_load_and_store_nothing_until_they_are_cleared(
        daemon, open_backend, caplog):
    weights("1")
    backend, other = (open_backend(daemon, pools={"kv": Mha()}) for _ in range(2))
    old, done = store(backend, 1)
    assert done
    weights("2")
    assert backend.batch_exists(KEYS) == 0 and load(backend) == [None] * 3
    assert not store(backend, 2)[1], "it may be a page of the old weights that was queued"
    assert sum("have version 2 now" in text for text in caplog.messages) == 1
    late = Mha(head_dim=4)
    backend.register_mem_host_pool_v2(late, "draft")
    draft = [PoolTransfer("draft", late.slots(*HERE), keys=KEYS)]
    assert backend.batch_set_v2(draft) == {"draft": [False] * 3}
    backend.clear()
    assert backend.batch_set_v2(draft) == {"draft": [True] * 3}
    assert load(backend) == [None] * 3
    want, done = store(backend, 3)
    assert done and load(backend) == want
    other.clear()  # it has got the same update
    assert load(other) == want
    weights("1")
    backend.clear()
    assert load(backend) == old


def test_an_update_that_is_taken_back_before_the_clear_leads_to_the_pages_of_the_first_weights(
        daemon, open_backend):
    weights("2")
    newer = open_backend(daemon, pools={"kv": Mha()})
    assert store(newer, 2)[1]
    weights("1")
    backend = open_backend(daemon, pools={"kv": Mha()})
    old, done = store(backend, 1)
    weights("2")
    assert done and backend.batch_exists(KEYS) == 0
    weights("1")
    assert backend.batch_exists(KEYS) == 0, "pages of the others may be on their way"
    backend.clear()
    assert load(backend) == old


@pytest.mark.parametrize("change", [lambda _: weights("2"), lambda backend: backend.clear()],
                         ids=["weights", "clear"])
@pytest.mark.parametrize("what", ["get", "ask"])
def test_weights_that_change_under_a_read_leave_nothing_of_it(daemon, open_backend, monkeypatch,
                                                             change, what):
    weights("1")
    backend = open_backend(daemon, pools={"kv": Mha()})
    assert store(backend, 1)[1] and backend.batch_exists(KEYS) == 3
    inner = {"get": backend._transfers, "ask": backend._hits}[what]
    method = getattr(inner, what)

    def changed_under(*arguments):
        answer = method(*arguments)
        change(backend)
        return answer

    monkeypatch.setattr(inner, what, changed_under)
    assert (load(backend) == [None] * 3) if what == "get" else backend.batch_exists(KEYS) == 0


def loaded_from(path):
    """SGLang has replaced its weights from these files."""
    runtime.get_context().override("model_runner.update_model_fields", model_path=str(path),
                                   load_format="auto")


def test_weights_from_other_files_are_known_by_those_as_soon_as_they_are_loaded(
        daemon, open_backend, tmp_path, caplog):
    model(tmp_path / "old", b"1" * 4096)
    model(tmp_path / "new", b"2" * 4096)
    loaded_from(tmp_path / "old")
    backend = open_backend(daemon, pools={"kv": Mha()}, revision=False)
    old, done = store(backend, 1)
    assert done
    loaded_from(tmp_path / "new")
    assert backend.batch_exists(KEYS) == 0 and load(backend) == [None] * 3
    assert not store(backend, 2)[1] and "POST /hicache/storage-backend/clear" in caplog.text
    backend.clear()
    assert load(backend) == [None] * 3
    new, done = store(backend, 3)
    assert done and load(backend) == new
    restarted = open_backend(daemon, pools={"kv": Mha()}, revision=False)
    assert load(restarted) == new, "with the files of now"
    loaded_from(tmp_path / "old")
    restarted = open_backend(daemon, pools={"kv": Mha()}, revision=False)
    assert load(restarted) == old, "as it was first started: the weights are the old ones"


def test_weights_that_were_replaced_and_have_the_same_name_are_cleared(daemon, open_backend):
    """The operator gives the revision."""
    loaded_from("model")
    backend = open_backend(daemon, pools={"kv": Mha()})
    assert store(backend, 1)[1]
    loaded_from("model")
    assert load(backend) == [None] * 3
    backend.clear()
    assert backend.batch_exists(KEYS) == 0 and load(backend) == [None] * 3
    want, done = store(backend, 2)
    assert done and load(backend) == want
    late = Mha(head_dim=4)
    backend.register_mem_host_pool_v2(late, "draft")
    draft = [PoolTransfer("draft", late.slots(*HERE), keys=KEYS)]
    assert backend.batch_set_v2(draft) == {"draft": [True] * 3}


def test_pages_of_one_version_are_for_engines_that_start_with_it(daemon, open_backend):
    weights("1")
    first = open_backend(daemon, pools={"kv": Mha()})
    want, done = store(first)
    assert done and load(open_backend(daemon, pools={"kv": Mha()})) == want
    weights("2")
    assert load(open_backend(daemon, pools={"kv": Mha()})) == [None] * 3


def model(folder, body):
    os.makedirs(folder, exist_ok=True)
    header = b'{"a":{"dtype":"F32"}}'
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + body)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        file.write('{"layers": 3}')
    runtime.get_context().set_server_args(types.SimpleNamespace(model_path=str(folder)))


def test_the_same_path_with_other_weights_finds_nothing_of_the_first(daemon, open_backend,
                                                                     tmp_path):
    model(tmp_path / "model", b"1" * 4096)
    first = open_backend(daemon, pools={"kv": Mha()}, revision=False)
    assert store(first)[1]
    again = open_backend(daemon, pools={"kv": Mha()}, revision=False)
    assert again.batch_exists(KEYS) == 3, "nothing has changed"
    model(tmp_path / "model", b"2" * 4096)
    other = open_backend(daemon, pools={"kv": Mha()}, revision=False)
    assert other.batch_exists(KEYS) == 0 and load(other) == [None] * 3


def test_a_clear_that_nobody_answers_leaves_no_old_page_in_use(daemon, open_backend, caplog):
    backend = open_backend(daemon)
    assert store(backend)[1]
    daemon.kill()
    eventually(lambda: not backend.session.connected, "the daemon's death is seen")
    backend.clear()
    assert "couldn't be cleared" in caplog.text
    daemon.start()
    eventually(lambda: backend.session.connected, "it is connected again")
    assert load(backend) == [None] * 3 and backend.batch_exists(KEYS) == 0
    backend.clear()
    assert backend.batch_exists(KEYS) == 0 and load(backend) == [None] * 3
    eventually(lambda: store(backend, 2)[1], "cleared now, it goes on")
    eventually(lambda: load(backend) == store(backend, 2)[0], "with pages of its own")


def test_a_pool_whose_clear_has_failed_stays_out_when_it_is_registered_anew(daemon, open_backend):
    backend = open_backend(daemon)
    assert store(backend)[1]
    daemon.kill()
    eventually(lambda: not backend.session.connected, "the daemon's death is seen")
    backend.clear()
    daemon.start()
    eventually(lambda: backend.session.connected, "it is connected again")
    backend.hosts["kv"] = Mha()  # in other memory
    backend.register_mem_pool_host(backend.hosts["kv"])
    assert backend.batch_exists(KEYS) == 0 and load(backend) == [None] * 3


def test_a_pool_that_was_refused_is_cleared_before_it_is_used(daemon, open_backend, monkeypatch):
    backend = open_backend(daemon)
    assert store(backend)[1]
    attach = Client.attach
    monkeypatch.setattr(Client, "attach", lambda *_, **how: Refused())
    late = open_backend(daemon, pools={"kv": Mha()})
    monkeypatch.setattr(Client, "attach", attach)
    assert late.batch_exists(KEYS) == 0
    late.session.clear(2)
    space = late.session.namespace("kv")
    assert space.generation == backend.session.namespace("kv").generation + 1


class Refused:
    """A namespace that the daemon had no room for."""

    ok, status, text = False, Status.OVER_QUOTA, "too many"


def test_a_clear_that_nobody_answers_waits_once_for_all_pools(daemon, open_backend, monkeypatch):
    """SGLang's scheduler stands meanwhile."""
    pools = {"kv": Mha(), "swa": Mha(head_dim=4), "draft": Mha(head_dim=2)}
    ranks = [open_backend(daemon, pools=dict(pools), tp_rank=rank, tp_size=2) for rank in range(2)]
    waits, attach = [], Client.attach

    def noted(self, fields, **how):
        waits.append(how["timeout"])
        return attach(self, fields, **how)

    monkeypatch.setattr(Client, "attach", noted)
    daemon.pause()
    for rank in ranks:
        rank.session.clear(0.2)
    daemon.resume()
    assert len(waits) == 3 and sum(waits) < 0.5
