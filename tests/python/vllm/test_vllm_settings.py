# SPDX-License-Identifier: Apache-2.0
"""Goal: what an operator writes is taken as meant or refused in words that help (O6-03, O6-07).

Method: Settings.read over plain objects with vLLM's names. Every refusal must name the key, the
value and what to do.
"""
import math
import os
import re

import pytest

from kvsidecar import Misuse
from kvsidecar.vllm.settings import HF3FS_KEYS, KEYS, Choice, Number, Settings, Switch, Text
from vllm_fakes import engine, transfer

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def read(extra=None, **how):
    return Settings.read(engine(kv_transfer=transfer(extra=extra, **how)))


def refusal(extra=None, **how):
    with pytest.raises(Misuse) as caught:
        read(extra, **how)
    return str(caught.value)


def test_nothing_has_to_be_set():
    found = read()
    assert found.lookup_deadline_s == pytest.approx(0.020)
    assert found.spin_s == pytest.approx(50e-6)
    assert (found.on_reset, found.events, found.durable) == ("detach", "engine", False)
    assert (found.socket, found.model, found.revision, found.tenant_salt) == (None,) * 4
    assert found.engine_id == "engine" and found.hints == ()


@pytest.mark.parametrize("role, stores, loads", [
    ("kv_producer", True, False), ("kv_consumer", False, True), ("kv_both", True, True)])
def test_the_role_says_who_stores_and_who_loads(role, stores, loads):
    found = read(role=role)
    assert (found.stores, found.loads) == (stores, loads)


def test_a_role_that_is_missing_is_refused():
    assert "kv_role is None" in refusal(role=None) and "kv_both" in refusal(role=None)


@pytest.mark.parametrize("extra, setting, value", [
    ({"socket": "/run/s"}, "socket", "/run/s"), ({"durable": True}, "durable", True),
    ({"lookup_deadline_ms": 5}, "lookup_deadline_s", 0.005), ({"spin_us": 0}, "spin_s", 0),
    ({"lease_s": 1.5}, "lease_s", 1.5), ({"leases_max": 0}, "leases_max", 0),
    ({"events": "off"}, "events", "off"), ({"on_reset": "keep"}, "on_reset", "keep"),
    ({"load_timeout_s": 3}, "load_timeout_s", 3), ({"tenant_salt": "a"}, "tenant_salt", "a"),
])
def test_a_key_is_taken_in_its_unit(extra, setting, value):
    assert getattr(read(extra), setting) == pytest.approx(value)


@pytest.mark.parametrize("wrong, nearest", [
    ("sockett", "socket"), ("load_timeout", "load_timeout_s"), ("on-reset", "on_reset"),
    ("lookup_deadline", "lookup_deadline_ms"), ("Durable", "durable")])
def test_an_unknown_key_is_refused_naming_the_nearest(wrong, nearest):
    text = refusal({wrong: 7})
    assert f"{wrong} = 7" in text and f"did you mean {nearest}?" in text


def test_a_key_that_is_near_to_none_is_refused_with_all_there_are():
    text = refusal({"zzzzzzzz": None})
    assert all(name in text for name in KEYS)


def wrong_values():
    for name, (_, key) in KEYS.items():
        if isinstance(key, Text):
            wrong = ["", 5, None, ["a"], "a\0b"]
        elif isinstance(key, Switch):
            wrong = [1, 0, "true", None]
        elif isinstance(key, Choice):
            wrong = ["", "Keep", 1, None, True]
        else:
            wrong = ["20", True, None, [1], math.nan, math.inf, key.least - 1, key.most + 1]
            wrong += [1.5] if key.whole else []
        yield from ((name, value) for value in wrong)


@pytest.mark.parametrize("name, value", list(wrong_values()))
def test_a_mistyped_value_is_refused_naming_key_value_and_remedy(name, value):
    text = refusal({name: value})
    assert f"{name} is " in text
    assert any(remedy in text for remedy in ("; give ", "; set it to ", "; it must be "))


def test_a_long_value_is_shown_cut():
    assert len(refusal({"durable": "x" * 5000})) < 250


def test_events_of_the_daemon_are_refused_with_a_sentence():
    text = refusal({"events": "daemon"})
    assert "publishes no events yet" in text and "engine or off" in text


@pytest.mark.parametrize("role", ["kv_both", "kv_consumer"])
def test_the_policy_to_fail_is_an_error_that_names_the_flag(role):
    text = refusal(role=role, policy="fail")
    assert '"kv_load_failure_policy": "recompute"' in text and "--kv-transfer-config" in text


def test_who_only_stores_may_leave_the_policy_alone():
    assert not read(role="kv_producer", policy="fail").loads


def test_a_release_without_the_policy_counts_as_one_that_fails():
    found = transfer()
    del found.kv_load_failure_policy
    with pytest.raises(Misuse, match="kv_load_failure_policy"):
        Settings.read(engine(kv_transfer=found))


def test_an_extra_config_that_is_no_object_is_refused():
    assert "JSON object" in refusal(extra=["socket"])


@pytest.mark.parametrize("name", HF3FS_KEYS)
def test_a_key_of_the_hf3fs_connector_is_accepted_with_what_replaces_it(name):
    hints = read({name: "anything at all", "durable": True}).hints
    assert len(hints) == 1 and name in hints[0] and HF3FS_KEYS[name] in hints[0]


def readme():
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        text = file.read()
    return text[text.index("\n## vLLM\n"):].split("\n## ")[1]


@pytest.mark.parametrize("name", [*KEYS, *HF3FS_KEYS])
def test_every_key_stands_in_the_readme(name):
    assert f"`{name}`" in readme()


def test_the_readme_names_no_key_or_default_that_is_none():
    named = {}
    for line in readme().splitlines():
        if line.startswith("| `") and not line.startswith(("| `hf3fs", "| `vllm")):
            keys, default = line.strip("|").split("|")[:2]
            defaults = default.replace(" ", "").split(",")
            keys = re.findall(r"`(\w+)`", keys)
            named.update(zip(keys, defaults if len(defaults) > 1 else defaults * len(keys)))
    assert named.keys() == KEYS.keys()
    for name, default in named.items():
        given = KEYS[name][1].default
        shown = "" if given is None else str(given).lower() if given is False else f"{given}"
        assert default == shown, name


def test_every_key_has_its_help_and_a_default_that_it_would_accept():
    for name, (setting, key) in KEYS.items():
        assert len(key.help) > 20, name
        if key.default is not None:
            read({name: int(key.default) if isinstance(key, Number) and key.whole
                  else key.default})
        assert setting in Settings.__dataclass_fields__
