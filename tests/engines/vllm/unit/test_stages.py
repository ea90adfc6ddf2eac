# SPDX-License-Identifier: Apache-2.0
"""Goal: the layers of a pipeline stage are a part of the page, whatever the stages hold.

Method: rig.py with a real daemon; layers are dealt out to stages, evenly and unevenly.
"""
import pytest

from rig import FULL, LATENT
from scene import GROUPS, daemon, filled, make_rig, prompt, seed, settle, whole  # noqa: F401
from waiting import eventually

THREE = {f"full.{i}": spec for i, spec in enumerate([FULL["full.0"]] * 3)}


def attached(rig):
    """Waits for the scheduler to be attached to what the workers have told that they hold."""
    session = rig.connector._scheduler.session
    eventually(lambda: all(space.generation for space in session.namespaces.values()),
               "the scheduler is attached")


@pytest.mark.parametrize("specs, ranks", [
    *(pytest.param(*param.values, 1, id=param.id, marks=param.marks) for param in GROUPS),
    pytest.param(THREE, 1, id="uneven"), pytest.param(LATENT, 2, id="latent")])
def test_stages_store_and_load_their_own_layers(make_rig, filled, settle, specs, ranks):
    shape = dict(specs=specs, ranks=ranks, stages=2)
    prompts = filled([prompt(i, 150) for i in range(3)], **shape)
    counters = settle()
    assert counters["parts_put"] == counters["pages_completed"] > 0
    rig = make_rig(**shape)
    rig.generate([prompt(99, 40)], name="first")  # tells the scheduler what uneven stages hold
    attached(rig)
    rig.generate(prompts)
    assert rig.hits == whole(prompts), rig.counts()
    rig.check_empty()
    one = make_rig(specs=specs, ranks=ranks)  # another geometry shares nothing
    one.generate(prompts)
    assert one.hits == 0


def test_uneven_stages_find_their_pages_after_a_reset(make_rig, settle):
    prompts = [prompt(i, 150) for i in range(3)]
    rig = make_rig(specs=THREE, stages=2)
    rig.generate([prompt(99, 40)], name="first")
    attached(rig)
    assert rig.scheduler.reset_prefix_cache(reset_connector=True)
    attached(rig)
    rig.generate(prompts, name="stored")
    settle()
    assert rig.scheduler.reset_prefix_cache()
    rig.generate(prompts, name="found")
    assert rig.hits == whole(prompts)
