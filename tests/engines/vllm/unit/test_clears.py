# SPDX-License-Identifier: Apache-2.0
"""Goal: when somebody else clears an engine's namespace, its pages of before are found by nobody,
what it stores afterwards by itself alone, and it goes on.

Method: another client clears in the middle of an engine's life; then it, a replica and a fresh
engine ask for the same prompts.
"""
import kvsidecar
from scene import (daemon, filled, forget, make_rig, prompt, seed, settle,  # noqa: F401
                   whole)
from waiting import eventually

PROMPTS = [prompt(i, 150) for i in range(3)]


def clear(daemon, rig):
    with kvsidecar.Client(daemon.socket) as other:
        for space in rig.connector._scheduler._spaces:
            assert other.clear(other.attach(space.fields)).result().ok


def found(rig, name):
    """Tokens of the prompts that the connector brings to an empty prefix cache."""
    before = rig.hits
    assert rig.scheduler.reset_prefix_cache()
    rig.generate(PROMPTS, name=name)
    return rig.hits - before


def test_a_clear_by_somebody_else_leaves_an_engine_to_itself(make_rig, settle, daemon):
    rig, replica = make_rig(), make_rig()
    rig.generate(PROMPTS, name="first")
    settle()
    assert found(replica, "replica") == whole(PROMPTS)
    clear(daemon, rig)
    assert found(rig, "cleared") == 0
    names = iter(range(1000))
    eventually(lambda: found(rig, f"again{next(names)}") == whole(PROMPTS), "it finds its own")
    settle()
    assert found(replica, "cleared") == 0
    fresh = make_rig()
    assert found(fresh, "fresh") == 0
    settle()
    assert found(make_rig(), "shared") == whole(PROMPTS)
    for each in (rig, replica, fresh):
        each.check_empty()


def reset_again_and_again(rig, lives, settle):
    """Each life finds nothing of the one before, and what it has stored itself."""
    for life in range(lives):
        names = iter(range(1000))
        assert found(rig, f"new{life}") == 0
        eventually(lambda: found(rig, f"{life}.{next(names)}") == whole(PROMPTS),
                   "it finds what came after the reset")
        settle()
        assert rig.scheduler.reset_prefix_cache(reset_connector=True)


def test_resets_that_clear_follow_each_other(make_rig, settle):
    reset_again_and_again(make_rig({"on_reset": "clear"}), 3, settle)


def test_many_resets_use_the_same_namespaces(make_rig, settle, daemon):
    """Weights that are trained are loaded again and again: an engine may be reset for days."""
    rig = make_rig()
    lives = 12
    reset_again_and_again(rig, lives, settle)
    rig.run()
    with kvsidecar.Client(daemon.socket) as asker:
        told = asker.stat(kvsidecar.Stat.NAMESPACES).result().json()["namespaces"]
    assert len(told) <= 3  # shared, its own, and the next of its own


def test_an_engine_that_only_stores_goes_on_too(make_rig, settle, daemon):
    rig = make_rig(role="kv_producer")
    rig.generate(PROMPTS, name="first")
    settle()
    clear(daemon, rig)
    names, before = iter(range(1000)), settle()["pages_put_stored"]

    def stored():
        assert rig.scheduler.reset_prefix_cache()
        rig.generate(PROMPTS, name=f"again{next(names)}")
        return settle()["pages_put_stored"] > before

    eventually(stored, "it stores in its own")
