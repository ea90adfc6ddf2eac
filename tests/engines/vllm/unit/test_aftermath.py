# SPDX-License-Identifier: Apache-2.0
"""Goal: what a request or a life of the engine leaves behind harms nobody after it: no page is
spoken ill of, none is found whose bytes come from other weights, nothing is kept for good.

Method: rig.py with a real daemon; the model's values are salted where weights are to differ.
"""
import pytest

from rig import PAGE
from scene import GROUPS, daemon, filled, forget, make_rig, prompt, seed, settle, whole  # noqa: F401


def abort_while_loading(rig, daemon, one):
    rig.on_load.append(lambda request: daemon.pause())
    request = rig.add("aborted", one)
    rig.run(lambda: request.status.name == "WAITING_FOR_REMOTE_KVS")
    rig.step()
    rig.abort("aborted")
    rig.run()
    daemon.resume()
    rig.on_load.clear()


@pytest.mark.parametrize("specs", GROUPS)
def test_an_aborted_load_keeps_nobody_from_its_pages(make_rig, filled, daemon, specs):
    prompts = filled([prompt(1, 300)], specs=specs)
    rig = make_rig(specs=specs)
    abort_while_loading(rig, daemon, prompts[0])
    assert rig.hits == whole(prompts)
    rig.generate(prompts)
    assert rig.hits == 2 * whole(prompts)
    assert rig.counts()["failed_loads"] == 0
    assert rig.connector._scheduler._lookups._asks == {}
    rig.check_empty()
