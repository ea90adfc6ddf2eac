# SPDX-License-Identifier: Apache-2.0
"""Goal: steps that are scheduled before the last one's tokens are known, and tokens that are
guessed and taken back, bring no wrong byte into a page or a request.

Method: the rigs of ahead.py, alone and in storms (test_storm.py).
"""
import pytest

from ahead import Ahead, Guessing
from scene import GROUPS, daemon, filled, make_rig, prompt, seed, settle, whole  # noqa: F401
from test_storm import storms

KINDS = [pytest.param(Ahead, id="ahead"), pytest.param(Guessing, id="guessing")]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("specs", GROUPS)
def test_what_one_engine_stored_the_next_one_loads(make_rig, filled, kind, specs):
    prompts = [prompt(i, 150 + i) for i in range(4)]
    rig = make_rig(kind=kind, specs=specs)
    more = rig.generate(prompts, max_tokens=80)
    rig.check_empty()
    rig = make_rig(kind=kind, specs=specs)
    rig.generate([one + tail for one, tail in zip(prompts, more)], name="again")
    assert rig.hits >= whole(prompts)
    rig.check_empty()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("specs", GROUPS)
def test_storms(make_rig, daemon, kind, specs):
    counts = storms(make_rig, daemon, range(200, 202), kind=kind, specs=specs)
    assert counts["stores"] > 0  # how many loads come in time is up to the machine
