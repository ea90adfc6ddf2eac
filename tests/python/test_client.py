# SPDX-License-Identifier: Apache-2.0
"""Goal: through the Python client every loaded byte is the stored one, statuses never raise, and
the engine goes on whatever becomes of the daemon.

Method: a real kvsidecard in a temporary directory; pages of random bytes, compared whole.
"""
import array
import asyncio
import mmap
import os
import select
import threading

import numpy
import pytest

import kvsidecar
from kvsidecar import Place, Status
from daemon import Daemon
from scene import KEY_BYTES, PAGE_BYTES, Engine, fields, random_keys
from waiting import eventually

PATIENCE_S = 60


def test_loaded_bytes_are_the_stored_ones(client):
    engine = Engine(client, 200)
    put = engine.put().result()
    assert put.ok and put.items.dtype == numpy.uint8 and (put.items == Status.OK).all()
    found = client.lookup(engine.keys, engine.namespace, lease=10).result()
    assert found.ok and found.longest == 200 and found.lease != 0
    assert (found.places == Place.HOST).all() and found.restorable.all()
    got = engine.get(lease=found.lease).result()
    assert got.ok and got.all_ok and got.succeeded == 200
    assert engine.loaded_bytes_are_right()
    assert client.release(found.lease).result().status == Status.OK


def test_a_key_that_was_never_put_is_a_miss_of_its_own(client):
    engine = Engine(client, 4)
    assert engine.put().result().succeeded == 4
    keys = numpy.concatenate([engine.keys[:2], random_keys(1, 99), engine.keys[3:]])
    found = client.lookup(keys, engine.namespace).result()
    assert found.longest == 2
    assert list(found.places) == [Place.HOST, Place.HOST, Place.MISS, Place.HOST]
    got = client.get(engine.namespace, keys, engine.layout, engine.to_blocks).result()
    assert got.ok and not got.all_ok  # served, and one of them isn't there
    assert got.ok and list(got.items) == [Status.OK, Status.OK, Status.MISS, Status.OK]


def test_registrations_that_nobody_waits_for_are_all_made(client):
    """Some come while the client makes those before."""
    spaces = [client.attach(fields(pool=f"pool {i}"), timeout=1e-6) for i in range(300)]
    eventually(lambda: all(space.generation for space in spaces), "all are attached")
    memory = client.create_memory(PAGE_BYTES)
    run = kvsidecar.Run(memory, 0, PAGE_BYTES, PAGE_BYTES)
    layouts = [client.register_layout(1, [run], timeout=1e-6) for _ in range(300)]
    keys = random_keys(1, 7)
    for layout in layouts:
        eventually(lambda: client.get(spaces[0], keys, layout, [0]).result().status == Status.OK,
                   "the layout is registered")


def test_a_second_put_of_a_page_exists(client):
    engine = Engine(client, 3)
    engine.put().result()
    assert (engine.put().result().items == Status.EXISTS).all()


def test_a_trailing_policy_restores_without_the_early_pages(client):
    engine = Engine(client, 4)
    client.put(engine.namespace, engine.keys[2:], engine.layout, [2, 3]).result()
    trailing = kvsidecar.Pool(engine.namespace, kvsidecar.Policy.TRAILING_PAGES, 2)
    assert client.lookup(engine.keys, [trailing]).result().longest == 4
    assert client.lookup(engine.keys, engine.namespace).result().longest == 0


def test_deleted_and_cleared_pages_are_misses(client):
    engine = Engine(client, 4)
    engine.put().result()
    assert client.delete(engine.namespace, engine.keys[3:]).result().succeeded == 1
    assert client.lookup(engine.keys, engine.namespace).result().longest == 3
    generation = engine.namespace.generation
    cleared = client.clear(engine.namespace).result()
    assert cleared.ok and cleared.generation > generation
    assert client.lookup(engine.keys, engine.namespace).result().longest == 0
    assert engine.put().result().succeeded == 4


def test_a_clear_by_id_ends_the_attachment_of_others(client, daemon):
    engine = Engine(client, 2)
    with kvsidecar.Client(daemon.socket) as other:
        assert other.clear(engine.namespace.namespace_id).result().ok
    put = engine.put().result()
    assert put.status == Status.STALE_NAMESPACE or (put.items == Status.STALE_NAMESPACE).all()


def test_the_namespace_id_is_the_computed_one(client):
    namespace = client.attach(fields(adapter="a", extra=[("rope", "yarn")]))
    wanted = kvsidecar.namespace_id(fields(adapter="a", extra=[("rope", "yarn")]))
    assert namespace.namespace_id == wanted
    assert client.attach(fields(adapter="b")).namespace_id != wanted


def test_a_missing_field_is_misuse_and_sends_nothing(client):
    with pytest.raises(kvsidecar.Misuse, match="revision"):
        client.attach(fields(revision=""))


def test_explicit_pieces_are_joined_in_their_order(client):
    engine = Engine(client, 2)
    half = PAGE_BYTES // 2
    swapped = kvsidecar.Pieces([engine.memory] * 2, [half, 0], [half, half], [2])
    assert client.put(engine.namespace, engine.keys[:1], swapped).result().succeeded == 1
    assert client.get(engine.namespace, engine.keys[:1], engine.layout, [2]).result().succeeded == 1
    both = engine.bytes()
    assert (both[2, :half] == both[0, half:]).all() and (both[2, half:] == both[0, :half]).all()


def test_a_put_waits_for_its_fence(client):
    engine = Engine(client, 2)
    fence = client.create_fence()
    put = engine.put(fence=fence, fence_value=7, timeout=PATIENCE_S)
    fence.signal(6)
    assert not put.finished
    engine.bytes()[0] = 42
    fence.signal(7)
    assert put.result().succeeded == 2
    assert engine.get().result().succeeded == 2 and engine.loaded_bytes_are_right()


def test_a_cancelled_put_gives_its_blocks_back(client):
    engine = Engine(client, 2)
    put = engine.put(fence=client.create_fence(), fence_value=1, timeout=PATIENCE_S)
    assert list(put.cancel()) == [1, 1]
    assert put.result().status in (Status.OK, Status.REVOKED)
    assert (put.result().items == Status.REVOKED).all()


def test_single_items_can_be_revoked(client):
    engine = Engine(client, 3)
    fence = client.create_fence()
    put = engine.put(fence=fence, fence_value=1, timeout=PATIENCE_S)
    assert list(put.revoke([1])) == [1]
    fence.signal(1)
    assert list(put.result().items) == [Status.OK, Status.REVOKED, Status.OK]


def test_a_deadline_ends_an_operation_with_timeout(client):
    engine = Engine(client, 1)
    put = engine.put(fence=client.create_fence(), fence_value=1, timeout=0.05)
    assert not put.wait(0)
    assert list(put.result().items) == [Status.TIMEOUT]


def test_an_engines_own_file_and_staged_memory_hold_the_same_bytes(client):
    engine = Engine(client, 2)
    engine.put().result()
    fd = os.memfd_create("engine")
    os.posix_fallocate(fd, 0, PAGE_BYTES)
    mapped = mmap.mmap(fd, PAGE_BYTES)
    region = client.register_fd(fd, PAGE_BYTES)
    staged = numpy.zeros(PAGE_BYTES, dtype=numpy.uint8)
    staged_region = client.register_staged(staged)
    for number, where in enumerate((region, staged_region)):
        assert where.ok and where.status == Status.OK, where.text
        layout = client.register_layout(1, [kvsidecar.Run(where, 0, PAGE_BYTES, PAGE_BYTES)])
        assert client.get(engine.namespace, engine.keys[number:number + 1], layout,
                          [0]).result().succeeded == 1
        assert layout.release() == Status.OK
    assert (numpy.frombuffer(mapped, dtype=numpy.uint8) == engine.bytes()[0]).all()
    assert (staged == engine.bytes()[1]).all()
    assert region.release() == Status.OK and staged_region.release() == Status.OK
    os.close(fd)


def test_descriptions_travel_with_their_pages(client):
    engine = Engine(client, 2)
    namespace = client.attach(fields(model="described"), description_bytes_max=1024)
    blobs = [kvsidecar.Description(token_ids=range(16), block_size=16).encode(), b""]
    put = client.put(namespace, engine.keys, engine.layout, engine.from_blocks, descriptions=blobs)
    assert put.result().succeeded == 2


def test_the_event_fd_tells_an_event_loop(client):
    engine = Engine(client, 8)
    put = engine.put()
    finished = []
    while not finished:
        assert select.select([client.fileno()], [], [], PATIENCE_S)[0], "no event came"
        finished = [event.op for event in client.poll()
                    if event.kind == kvsidecar.EventKind.FINISHED]
    assert finished == [put] and put.finished and put.result().succeeded == 8
    assert client.poll() == []


def test_asyncio_can_await_operations(client):
    engine = Engine(client, 8)

    async def store():
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        put = engine.put()
        loop.add_reader(client.fileno(),
                        lambda: any(event.op is put for event in client.poll()) and done.set())
        if not put.finished:
            await asyncio.wait_for(done.wait(), PATIENCE_S)
        loop.remove_reader(client.fileno())
        return put.result()

    assert asyncio.run(store()).succeeded == 8


def test_other_python_threads_run_while_one_waits(client):
    engine = Engine(client, 1)
    fence = client.create_fence()
    put = engine.put(fence=fence, fence_value=1, timeout=PATIENCE_S)
    waiter = threading.Thread(target=put.wait)
    waiter.start()
    fence.signal(1)  # only a free GIL lets this thread get here while the other one waits
    waiter.join(PATIENCE_S)
    assert not waiter.is_alive() and put.result().succeeded == 1


def test_all_of_several_operations_are_waited_for(client):
    engines = [Engine(client, 16, seed) for seed in range(4)]
    puts = [engine.put() for engine in engines]
    assert client.wait_all(puts)
    gets = [engine.get() for engine in engines]
    assert client.wait_all(gets, PATIENCE_S)
    assert all(engine.loaded_bytes_are_right() for engine in engines)


def test_memory_stays_while_it_is_looked_at(client):
    memory = client.create_memory(PAGE_BYTES)
    view = memory.view
    view[0] = 7
    assert memory.array()[0] == 7 and len(memory) == PAGE_BYTES
    with pytest.raises(BufferError):
        memory.release()
    with pytest.raises(BufferError):
        client.close()
    assert view[0] == 7
    view.release()
    assert memory.release() == Status.OK
    with pytest.raises(kvsidecar.Misuse, match="released"):
        memory.view


def test_a_memory_that_is_dropped_lives_on_in_its_array(client):
    seen = client.create_memory(PAGE_BYTES).array("u4")
    seen[:] = 3
    assert int(seen.sum()) == 3 * PAGE_BYTES // 4


def test_without_a_daemon_operations_end_unavailable_and_nothing_raises(library, tmp_path):
    with kvsidecar.Client(str(tmp_path / "nobody.sock"), connect_timeout=0.01,
                          allow_disconnected=True) as client:
        engine = Engine(client, 2)
        assert engine.memory.status == engine.namespace.status == Status.UNAVAILABLE
        for op in (engine.put(), engine.get(), client.stat()):
            assert op.finished and op.result().status == Status.UNAVAILABLE
        assert list(engine.put().result().items) == [Status.UNAVAILABLE] * 2
        assert client.lookup(engine.keys, engine.namespace).result().longest == 0


def test_opening_without_a_daemon_says_what_to_do(library, tmp_path):
    with pytest.raises(kvsidecar.OpenFailed, match="kvsidecard") as failure:
        kvsidecar.Client(str(tmp_path / "nobody.sock"), connect_timeout=0.01)
    assert failure.value.status == Status.UNAVAILABLE


def test_an_engine_goes_on_over_a_daemon_that_is_killed(daemon):
    with kvsidecar.Client(daemon.socket, reconnect_min=0.01) as client:
        engine = Engine(client, 50)
        assert engine.put(durable=True, timeout=PATIENCE_S).result().succeeded == 50
        before = client.connection()
        daemon.kill()
        died = engine.get().result()
        assert died.status == Status.UNAVAILABLE or set(died.items) <= {Status.UNAVAILABLE}
        daemon.start()
        assert client.wait_connected(PATIENCE_S)
        after = client.connection()
        assert after.connects > before.connects and after.epoch > before.epoch
        engine.forget_loaded()
        found = client.lookup(engine.keys, engine.namespace, timeout=PATIENCE_S).result()
        assert found.longest == 50
        assert engine.get(timeout=PATIENCE_S).result().succeeded == 50
        assert engine.loaded_bytes_are_right()


def test_what_a_peer_may_not_do_is_denied_and_no_exception(library, tmp_path):
    with Daemon(tmp_path, permissions=["read"]) as daemon, \
            kvsidecar.Client(daemon.socket) as client:
        engine = Engine(client, 2)
        put = engine.put().result()
        assert put.status == Status.DENIED or (put.items == Status.DENIED).all()
        assert client.stat(kvsidecar.Stat.NAMESPACES).result().status == Status.DENIED


def test_a_refused_layout_says_why_and_its_use_is_misuse(client):
    memory = client.create_memory(PAGE_BYTES)
    layout = client.register_layout(2, [kvsidecar.Run(memory, 0, PAGE_BYTES, PAGE_BYTES)])
    assert not layout.ok and layout.status == Status.INVALID and layout.text
    with pytest.raises(kvsidecar.Misuse, match="INVALID"):
        client.put(client.attach(fields()), [b"k" * KEY_BYTES], layout, [0])


@pytest.mark.parametrize("call, word", [
    (lambda c, e: c.put(e.namespace, e.keys, e.layout), "blocks is missing"),
    (lambda c, e: c.put(e.namespace, e.keys, e.layout, [0]), "one each"),
    (lambda c, e: c.get(e.namespace, b"abc", e.layout, [0]), "key_bytes"),
    (lambda c, e: c.lookup(e.keys, []), "at least one"),
    (lambda c, e: c.put(e.namespace, e.keys, e.layout, [0, 1], descriptions=[b""]), "one each"),
    (lambda c, e: c.clear(b"short"), "16 bytes"),
    (lambda c, e: c.attach(fields(), group=b"short"), "uuid"),
    (lambda c, e: c.stat(timeout=-1), "0 or more"),
    (lambda c, e: c.register_staged(b"read-only"), "read-only"),
])
def test_misuse_is_told_before_anything_is_begun(client, call, word):
    engine = Engine(client, 2)
    with pytest.raises(kvsidecar.Misuse, match=word):
        call(client, engine)


def test_keys_without_numpy_reach_the_same_pages(client, monkeypatch):
    engine = Engine(client, 4)
    engine.put().result()
    monkeypatch.setattr(kvsidecar._buffers, "np", None)
    flat = engine.keys.tobytes()
    found = client.lookup(flat, engine.namespace, key_bytes=KEY_BYTES).result()
    assert found.longest == 4 and list(found.places) == [Place.HOST] * 4
    got = client.get(engine.namespace, flat, engine.layout, array.array("I", range(4, 8)),
                     key_bytes=KEY_BYTES).result()
    assert got.succeeded == 4 and isinstance(got.items, memoryview)
    assert engine.loaded_bytes_are_right()


def test_stat_and_why_are_the_daemons_own_account(client):
    engine = Engine(client, 2)
    engine.put().result()
    status = client.stat().result().json()
    assert status["counters"]["pages_put_stored"] == 2
    names = client.stat(kvsidecar.Stat.NAMESPACES).result().json()["namespaces"]
    assert [name["namespace"] for name in names] == [engine.namespace.namespace_id.hex()]
    why = client.why(bytes(engine.keys[0]), engine.namespace.namespace_id).result().json()
    assert why["answers"][0]["place"] == "host"
    assert client.why(b"nobody").result().json()["answers"][0]["place"] == "miss"


def test_a_forked_child_opens_a_client_of_its_own(client, daemon):
    engine = Engine(client, 1)
    child = os.fork()
    if child == 0:
        dead = engine.put().result().status == Status.UNAVAILABLE
        with kvsidecar.Client(daemon.socket) as own:
            alive = own.stat().result().ok
        os._exit(0 if dead and alive else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert engine.put().result().succeeded == 1
