# SPDX-License-Identifier: Apache-2.0
"""Goal: who may attach and what he may do is what [[allow]] says, and a quota ends at its number.

Method: daemons with one entry each; clients of other users are processes of their own, so those
tests need root.
"""
import os

import pytest

import accounts
import content
import kvsidecar
from daemon import die_with_parent  # noqa: F401  (children of fork use it)
from engine import Engine, fields
from kvsidecar import Stat, Status
from waiting import eventually

STRANGER = 54321
ADMIN = {"uid": [os.getuid()], "permissions": ["read", "put", "clear", "admin"]}
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root: a client of another user")


def as_user(uid, gids, body):
    """Runs body() in a child of that user; True when it gave True."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            die_with_parent()
            os.setgroups(gids)
            os.setgid(uid)
            os.setuid(uid)
            code = 0 if body() else 1
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


def open_to_all(daemon):
    """The folders' modes are another test's; here [[allow]] alone decides."""
    for folder in (daemon.folder, os.path.dirname(daemon.folder), daemon.path("run")):
        os.chmod(folder, 0o755)
    parent = os.path.dirname(os.path.dirname(daemon.folder))
    while parent != "/":
        if os.stat(parent).st_uid == os.getuid() and not os.stat(parent).st_mode & 0o001:
            os.chmod(parent, os.stat(parent).st_mode | 0o011)
        parent = os.path.dirname(parent)
    os.chmod(daemon.socket, 0o666)


def is_refused(daemon):
    try:
        kvsidecar.Client(daemon.socket)
    except kvsidecar.OpenFailed as refused:
        return refused.status == Status.DENIED and f"uid {STRANGER}" in str(refused) and \
            "[[allow]]" in str(refused)
    return False


@needs_root
def test_a_user_who_is_not_listed_is_refused_by_name(start):
    daemon = start(allow=[ADMIN])
    open_to_all(daemon)
    assert as_user(STRANGER, [], lambda: is_refused(daemon))
    daemon.log_has(r"session_refused.*uid=%d" % STRANGER)


@needs_root
@pytest.mark.parametrize("entry", [{"uid": [STRANGER]}, {"gid": [STRANGER]}, {"gid": [777]}],
                         ids=["uid", "gid", "supplementary"])
def test_a_user_who_is_listed_is_served(start, entry):
    daemon = start(allow=[ADMIN, entry])
    open_to_all(daemon)

    def served():
        with Engine(daemon.socket, 4, 4096) as engine:
            keys = content.keys(range(4))
            return set(engine.check_put(keys)) == {Status.OK} and \
                set(engine.check_get(keys)) == {Status.OK}

    assert as_user(STRANGER, [777], served)


@needs_root
def test_the_socket_is_closed_to_users_outside_its_group(start):
    daemon = start(allow=[ADMIN, {"uid": [STRANGER]}])
    open_to_all(daemon)
    os.chmod(daemon.socket, 0o660)

    def closed():
        try:
            kvsidecar.Client(daemon.socket)
        except kvsidecar.OpenFailed as refused:
            return refused.status == Status.DENIED
        return False

    assert as_user(STRANGER, [], closed)


def limited(start, **entry):
    """A daemon whose clients in this process have that entry. Its account is read by its metrics'
    user, who is the same."""
    return start(allow=[dict({"uid": [os.getuid()]}, **entry)])


def denied(result, word):
    return result.status == Status.DENIED and word in result.text and "[[allow]]" in result.text


def test_operations_that_are_not_listed_are_denied_by_name(start):
    daemon = limited(start, permissions=["read"])
    keys = content.keys(range(2))
    with Engine(daemon.socket) as engine:
        assert denied(engine.put(keys).result(), "put")
        assert denied(engine.client.clear(engine.space).result(), "clear")
        assert denied(engine.client.clear(engine.space.namespace_id).result(), "admin")
        assert denied(engine.client.stat(Stat.SESSIONS).result(), "admin")
        assert denied(engine.client.stat(Stat.DRAIN).result(), "admin")
        assert engine.check_get(keys) == [Status.MISS] * 2
        assert engine.lookup(keys).result().ok


def test_reading_that_is_not_listed_is_denied(start):
    daemon = limited(start, permissions=["put"])
    keys = content.keys(range(2))
    with Engine(daemon.socket) as engine:
        assert set(engine.check_put(keys)) == {Status.OK}
        assert denied(engine.get(keys).result(), "read")
        assert denied(engine.lookup(keys).result(), "read")
        assert denied(engine.client.delete(engine.space, keys).result(), "")


@pytest.mark.parametrize("salt, served", [(None, False), ("ours", True), ("theirs", False),
                                          ("", False), ("our", False), ("ours\u00e9", False)])
def test_tenant_salts_are_the_listed_ones(start, salt, served):
    """O1-05: and a salt is part of the identity."""
    daemon = limited(start, permissions=["read", "put"], tenant_salts=["ours"])
    with kvsidecar.Client(daemon.socket) as client:
        space = client.attach(fields(4096, tenant_salt=salt))
        assert space.ok == served
        if not served:
            assert space.status == Status.DENIED and "tenant_salt" in space.text, space.text


def test_who_names_no_salt_is_served_where_that_is_listed(start):
    """O1-05: else two tenants that name none would share."""
    daemon = limited(start, permissions=["read", "put"], tenant_salts=["ours", ""])
    with kvsidecar.Client(daemon.socket) as client:
        for salt, served in ((None, True), ("", True), ("ours", True), ("theirs", False)):
            assert client.attach(fields(4096, tenant_salt=salt)).ok == served, salt


def test_tenants_never_see_each_others_pages(start):
    """O1-05."""
    daemon = start()
    pairs = [(adapter, salt) for adapter in ("", "a", "ab", "b", "a|b", "a/b", None)
             for salt in ("", "a", "ab", "b", "a|b", "a/b", None)]
    engines = [Engine(daemon.socket, 2, 4096, namespace=fields(4096, adapter=a, tenant_salt=s))
               for a, s in pairs]
    key = content.key(1)
    for number, engine in enumerate(engines):
        engine.view[:] = number
        result = engine.client.put(engine.space, [key], engine.layout, [0]).result()
        assert result.items[0] == Status.OK, pairs[number]
    for number, engine in enumerate(engines):
        engine.view[:] = 255
        result = engine.client.get(engine.space, [key], engine.layout, [1]).result()
        assert result.items[0] == Status.OK
        assert (engine.view[:, 1] == number).all(), pairs[number]
        engine.close()


def test_sessions_beyond_the_number_are_refused(start):
    daemon = limited(start, sessions_max=3)
    clients = [kvsidecar.Client(daemon.socket) for _ in range(3)]
    with pytest.raises(kvsidecar.OpenFailed) as refused:
        kvsidecar.Client(daemon.socket, connect_timeout=0.5)
    assert refused.value.status == Status.OVER_QUOTA and "sessions_max" in str(refused.value)
    for client in clients:
        client.close()


def test_memory_beyond_the_quota_is_refused_and_comes_back(start):
    daemon = limited(start, region_bytes_max="4MiB")
    with kvsidecar.Client(daemon.socket) as client:
        first = client.create_memory(3 << 20)
        assert first.ok
        second = client.create_memory(2 << 20)
        assert second.status == Status.OVER_QUOTA and "region_bytes_max" in second.text
        assert first.release(10) == Status.OK
        assert client.create_memory(2 << 20).ok


def test_bytes_in_flight_beyond_the_quota_are_refused(start):
    daemon = limited(start, bytes_in_flight_max="256KiB")
    with Engine(daemon.socket, 8) as engine:
        keys = content.keys(range(8))
        result = engine.put(keys).result()
        assert result.status == Status.OVER_QUOTA and "bytes_in_flight_max" in result.text
        assert set(engine.check_put(keys[:4])) == {Status.OK}
        assert engine.get(keys).result().status == Status.OVER_QUOTA
        assert set(engine.check_get(keys[:4])) == {Status.OK}
    accounts.check_sums(accounts.status(daemon)["counters"])


def test_a_pool_quota_keeps_room_for_others(start):
    """What is beyond it takes the place of the user's own pages, or is refused; never more."""
    daemon = limited(start, pool_bytes_max="1MiB")
    with Engine(daemon.socket, 64) as engine:
        for turn in range(4):
            engine.put(content.keys(range(64), b"%d" % turn)).result()
        pool = accounts.status(daemon)["host_pool"]
        assert pool["slots_full"] * 65536 <= 1 << 20, pool


def test_a_store_quota_ends_at_its_number_and_costs_no_put(start):
    daemon = limited(start, store_bytes_max="1MiB")
    with Engine(daemon.socket, 64) as engine:
        keys = content.keys(range(64))
        assert set(engine.check_put(keys)) == {Status.OK}
        eventually(lambda: accounts.status(daemon)["write_behind"]["pages"] == 0, "all is written",
                   pid=daemon.pid)
        counters = accounts.status(daemon)["counters"]
        assert counters["writes_dropped_quota"] > 0
        assert counters["bytes_written"] <= 1 << 20
        assert set(engine.check_get(keys)) == {Status.OK}
        durable = engine.check_put(content.keys([1000]), durable=True, timeout=10)
        assert durable == [Status.NOT_STORED]


def test_leases_end_at_their_caps_and_say_so(start):
    daemon = start(limits={"leases_per_session": 8})
    keys = content.keys(range(16))
    with Engine(daemon.socket) as engine:
        assert set(engine.check_put(keys)) == {Status.OK}
        first = engine.lookup(keys[:8], lease=30).result()
        assert first.lease and not first.lease_capped
        second = engine.lookup(keys, lease=30).result()
        assert second.longest == 16 and not second.lease and second.lease_capped
        assert engine.client.release(first.lease).result().ok
        third = engine.lookup(keys[:8], lease=30).result()
        assert third.lease and not third.lease_capped
