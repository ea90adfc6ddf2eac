# SPDX-License-Identifier: Apache-2.0
"""Goal: a reset does what on_reset says, for this engine or for all, and leaves nothing under way.

Method: an engine of numpy memory with the linker (linker_scene.py) and a real daemon.
"""
from linker_scene import Engine, hashes, wait_until

PAGES = list(range(1, 9))
OTHERS = list(range(21, 29))


def keys():
    return hashes(len(PAGES))


def test_a_reset_detaches(daemon, tmp_path):
    with Engine(tmp_path / "model", daemon.socket) as engine:
        engine.fill(1)
        assert engine.offloaded(keys(), PAGES)
        assert engine.found(keys()) and engine.load(keys(), OTHERS)
        engine.linker.reset()
        assert engine.linker.start_layer_wise_loading() == -1
        assert engine.lookup(keys()) == []
        engine.fill(2)
        want = engine.read(PAGES)
        assert wait_until(lambda: engine.offloaded(keys(), PAGES))
        assert engine.found(keys()) and engine.load(keys(), OTHERS) and engine.forward()[1]
        assert all((got == page).all() for got, page in zip(engine.read(OTHERS), want))
        with Engine(tmp_path / "model", daemon.socket) as other:  # keeps what it had
            assert other.found(keys()) and other.load(keys(), PAGES) and other.forward()[1]
            assert not (other.read(PAGES)[0] == want[0]).all()


def test_a_reset_clears_for_the_fleet(daemon, tmp_path):
    with Engine(tmp_path / "model", daemon.socket, on_reset="clear") as engine:
        engine.fill(1)
        assert engine.offloaded(keys(), PAGES)
        engine.linker.reset()
        with Engine(tmp_path / "model", daemon.socket) as other:
            assert other.lookup(keys()) == []
        assert wait_until(lambda: engine.offloaded(keys(), PAGES))
        assert engine.found(keys())


def test_a_clear_by_another_engine_leaves_this_one_out_until_its_own_reset(daemon, tmp_path,
                                                                           caplog):
    with Engine(tmp_path / "model", daemon.socket) as engine, \
            Engine(tmp_path / "model", daemon.socket, on_reset="clear") as other:
        engine.fill(1)
        assert engine.offloaded(keys(), PAGES)
        other.linker.reset()
        assert engine.lookup(keys()) == []
        assert not engine.offloaded(hashes(8, "new"), PAGES)
        assert not engine.offloaded(hashes(8, "newer"), PAGES)
        assert caplog.text.count("somebody else has cleared") == 1
        engine.linker.reset()
        assert wait_until(lambda: engine.offloaded(keys(), PAGES))
        assert engine.found(keys()) == list(range(1, 9))


def test_a_reset_keeps_what_it_is_told_to_keep(daemon, tmp_path):
    with Engine(tmp_path / "model", daemon.socket, on_reset="keep") as engine:
        engine.fill(1)
        assert engine.offloaded(keys(), PAGES)
        engine.linker.reset()
        assert engine.found(keys()) == list(range(1, 9))


def test_a_reset_ends_offloads_that_are_under_way(daemon, tmp_path):
    with Engine(tmp_path / "model", daemon.socket, store_timeout_s=20) as engine:
        engine.fill(1)
        daemon.pause()
        assert engine.offload(keys(), PAGES)
        engine.linker.reset()
        assert engine.linker.num_completed_offloads() == 0
        assert engine.linker.counts["not_stored"] == engine.linker.counts["offloads"] == 1
        assert not engine.linker.pop_completed_offload()
        daemon.resume()


def test_a_second_close_does_nothing(daemon, tmp_path):
    with Engine(tmp_path / "model", daemon.socket) as engine:
        engine.linker.close()
        engine.linker.close()
        assert engine.lookup(keys()) == []
        assert engine.linker.start_layer_wise_loading() == -1
