# SPDX-License-Identifier: Apache-2.0
"""What a daemon holds, looked at from outside and by its own account, and the sums of its
counters."""
import collections
import os
import re

import kvsidecar

from daemon import proc_text
from waiting import eventually

DELETED = " (deleted)"
SESSION_MEMFDS = 3  # the asker's
# What an earlier daemon's direct I/O may still do keeps its unfinished slots aside for 30 s.
PREDECESSOR_S = 45.0


def status_by(client):
    result = client.stat(timeout=10).result()
    assert result.ok, (result.status, result.text)
    return result.json()


def status(daemon):
    """The daemon's own account."""
    with kvsidecar.Client(daemon.socket, name="asker") as client:
        return status_by(client)


def descriptors(daemon):
    """How many of each kind the daemon has open. Files of the store come and go with its segments
    and are left out; one that is held though it was unlinked isn't, unless it was a test that
    unlinked it."""
    root = daemon.sections["store"]["root"]
    kinds = collections.Counter()
    folder = f"/proc/{daemon.pid}/fd"
    for name in os.listdir(folder):
        try:
            target = os.readlink(f"{folder}/{name}")
        except FileNotFoundError:
            continue
        if root and target.startswith(root) and \
                (daemon.store_was_harmed or not target.endswith(DELETED)):
            continue
        kinds[re.sub(r":\[\d+\]|\d+", "", target)] += 1
    return kinds


def mapped_memfds(daemon):
    """(mappings, bytes) of memory that came over a socket or was made for a session."""
    sizes = [int(end, 16) - int(start, 16) for start, end in
             re.findall(r"^(\w+)-(\w+) .*/memfd:", proc_text(daemon.pid, "maps"), re.MULTILINE)]
    return len(sizes), sum(sizes)


def holdings(daemon):
    """Everything that must come back to what it was, the asker's session included."""
    with kvsidecar.Client(daemon.socket, name="asker") as client:
        return _holdings(daemon, status_by(client))


def _holdings(daemon, now):
    pool = now["host_pool"]
    return {
        "descriptors": descriptors(daemon), "memfds": mapped_memfds(daemon),
        # Each life of a mount numbers its buffers' file anew.
        "shm": [(re.sub(r"bounce-\d+$", "bounce", path), os.path.getsize(path))
                for path in daemon.shm_files()],
        "pool_bytes": pool["bytes"], "filling": pool["slots_filling"],
        "quarantined": pool["slots_quarantined"], "sessions": now["sessions"],
        "leases": now["leases"], "operations": now["operations"], "fillings": now["fillings"],
        "fetches": now["fetches"], "writes": now["write_behind"]["pages"],
        "groups": now["groups"],
    }


def take_baseline(daemon):
    """Of a daemon that nobody uses yet, once its pool is whole."""
    planned = daemon.told("pool_bytes")

    def whole():
        now = status(daemon)
        return now["host_pool"]["bytes"] == planned and now["scanned"]

    eventually(whole, "the pool is whole and the store is read", pid=daemon.pid)
    before = None

    def settled():  # the thread that reserves the pool has ended, the last asker is forgotten
        nonlocal before
        now = holdings(daemon)
        same, before = now == before, now
        return same and now["sessions"] == 1 and now["memfds"][0] == SESSION_MEMFDS

    eventually(settled, "a daemon in its first state", pid=daemon.pid)
    return before


def restart_with_store_only(daemon):
    """Stops it, takes its warm pool away and starts it again: what it knows is what it stored."""
    assert daemon.terminate() == 0
    daemon.forget_pool()
    daemon.start()
    daemon.baseline = take_baseline(daemon)


def check_baseline(daemon, but=()):
    """All that clients had has come back, but for what `but` names."""
    last = {}

    def back():
        last["seen"] = {name: value for name, value in holdings(daemon).items()
                        if value != daemon.baseline[name] and name not in but}
        return not last["seen"]

    seconds = PREDECESSOR_S if daemon.killed_with_store else 20.0
    try:
        eventually(back, "everything is back to the baseline", pid=daemon.pid, seconds=seconds)
    except AssertionError as late:
        wanted = {name: daemon.baseline[name] for name in last["seen"]}
        raise AssertionError(
            f"not back to the baseline ({late}): has {last['seen']}, had {wanted}") from None


def check_sums(counters):
    """The counters add up."""
    def total(*names):
        return sum(counters[name] for name in names)

    assert counters["pages_looked_up"] == total(
        "pages_found_host", "pages_found_store", "pages_found_remote", "pages_found_miss"), counters
    assert counters["pages_put"] == total(
        "pages_put_stored", "pages_put_exists", "pages_put_refused", "pages_put_failed",
        "pages_put_abandoned"), counters
    assert counters["pages_get"] == total(
        "pages_get_host", "pages_get_store", "pages_get_miss", "pages_get_failed"), counters
