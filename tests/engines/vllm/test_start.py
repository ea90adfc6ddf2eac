# SPDX-License-Identifier: Apache-2.0
"""Goal: what can't be right is said at start, in a sentence that names the remedy; what can be is
served.

Method: real engines with one wrong flag each, as an operator would have them; a real daemon that
takes its clients for newer ones, and one that refuses an engine's memory.
"""
import contextlib
import os
import re
import socket
import threading

import pytest

import raw_peer
import workload
from engine import EngineFailed, connector, ids

REFUSED = {
    "an unknown key": (dict(extra={"lookup_deadline": 20}), {}, "did you mean lookup_deadline_ms"),
    "a mistyped value": (dict(extra={"durable": "yes"}), {}, "durable is \"yes\"; set it to true"),
    "events of the daemon": (dict(extra={"events": "daemon"}), {}, "publishes no events yet"),
    "loads that may fail requests": (dict(policy="fail"), {},
                                     '"kv_load_failure_policy": "recompute"'),
    "no prefix caching": ({}, dict(enable_prefix_caching=False), "--enable-prefix-caching"),
}


def test_each_wrong_flag_is_refused_with_its_remedy(engine, daemon):
    for what, (transfer, flags, sentence) in REFUSED.items():
        more = dict(transfer)
        extra = more.pop("extra", {})
        with pytest.raises(EngineFailed) as failed:
            engine.start("llama", connector(daemon.socket, **more, **extra), **flags)
        assert sentence in str(failed.value), what


def test_keys_of_the_hf3fs_connector_are_accepted_with_a_hint(engine, daemon, settle):
    prompts = workload.chats(2)
    engine.start("llama", connector(daemon.socket, hf3fs_storage_path="/mnt/x",
                                    hf3fs_client_numjobs=16))
    assert len(ids(engine.generate(prompts))) == 2
    assert "[store] root" in engine.log() and "[store] depth" in engine.log()
    assert settle(daemon, engine)["pages_put_stored"] > 0


def test_the_end_of_an_engine_may_come_twice(engine, daemon):
    """vLLM's HF3FS connector was ended twice; so may ours, whatever has been ended before."""
    engine.start("llama", connector(daemon.socket))
    engine.generate(workload.chats(1))
    assert engine.call("shut_connectors_down", times=3)
    engine.call("stop")


def newer_hello(message):
    """The same HELLO from a client of the next protocol version."""
    fields = list(raw_peer.HELLO.unpack(message))
    fields[2] = raw_peer.MAJOR + 1
    return raw_peer.HELLO.pack(*fields)


@contextlib.contextmanager
def another_version(daemon, path):
    """A socket behind which the daemon takes every client for one of another version."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(path)
        listening.listen()

        def relay():
            with contextlib.suppress(OSError):  # the listener's end
                while True:
                    client, _ = listening.accept()
                    with client, raw_peer.Door(daemon.socket) as door:
                        door.send(newer_hello(client.recv(4096)))
                        client.send(door.socket.recv(4096))

        thread = threading.Thread(target=relay)
        thread.start()
        try:
            yield path
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_a_daemon_of_another_protocol_version_is_done_without(engine, daemon, reference, tmp_path):
    prompts = workload.chats(2)
    expected = ids(reference("llama", prompts))
    with another_version(daemon, str(tmp_path / "newer")) as path:
        engine.start("llama", connector(path))
        assert ids(engine.generate(prompts)) == expected
        engine.check_blocks()
    assert re.search(r"no daemon takes this engine .* speaks protocol 2\.0, this daemon 1\.0; "
                     "update the older of the two.*serves without it", engine.log())


def test_memory_that_the_daemon_refuses_is_done_without(engine, start_daemon, reference):
    """Its region is larger than this engine's user may register."""
    prompts = workload.chats(2)
    expected = ids(reference("llama", prompts))
    daemon = start_daemon(allow=[{"uid": [os.getuid()], "permissions": ["read", "put", "admin"],
                                  "region_bytes_max": 1 << 20}])
    engine.start("llama", connector(daemon.socket))
    assert ids(engine.generate(prompts)) == expected
    engine.check_blocks()
    assert "the daemon refused the KV cache's memory" in engine.log()
    assert "region_bytes_max" in engine.log()
