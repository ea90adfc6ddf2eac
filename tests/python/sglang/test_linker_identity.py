# SPDX-License-Identifier: Apache-2.0
"""Goal: engines that differ in anything that decides bytes never see each other's pages through
door B, and what can't be served is refused at start with a sentence.

Method: engines of numpy memory with the linker (linker_scene.py) and a real daemon. K1.
"""
import pytest
from linker_scene import LAYERS, Engine, MHATokenToKVPool, hashes, server_args

from kvsidecar.errors import Misuse

PAGES = list(range(1, 9))


@pytest.fixture
def engine(daemon, tmp_path):
    with Engine(tmp_path / "model", daemon.socket) as made:
        yield made


def keys():
    return hashes(len(PAGES))


def test_new_weights_under_the_old_name_find_nothing(daemon, tmp_path, engine):
    engine.fill(1)
    assert engine.offloaded(keys(), PAGES)
    (tmp_path / "model" / "model.safetensors").write_text("others")
    with Engine(tmp_path / "model", daemon.socket) as other:
        assert other.lookup(keys()) == []


@pytest.mark.parametrize("changed", [
    {"quantization": "fp8"}, {"dtype": "float16"}, {"kv_cache_dtype": "fp8_e4m3"}])
def test_an_engine_that_differs_in_one_flag_finds_nothing(daemon, tmp_path, engine, changed):
    engine.fill(1)
    assert engine.offloaded(keys(), PAGES)
    with Engine(tmp_path / "model", daemon.socket,
                arguments=server_args(tmp_path / "model", **changed)) as other:
        assert other.lookup(keys()) == []


@pytest.mark.parametrize("changed", [
    {"tenant_salt": "t"}, {"model": "m"}, {"revision": "2"}, {"weights_version": "2"}])
def test_an_engine_that_differs_in_one_key_finds_nothing(daemon, tmp_path, changed):
    daemon.allow[0]["tenants"] = ["*"]
    with Engine(tmp_path / "model", daemon.socket) as engine:
        engine.fill(1)
        assert engine.offloaded(keys(), PAGES)
        with Engine(tmp_path / "model", daemon.socket, **changed) as other:
            assert other.lookup(keys()) == []


def test_the_number_of_layers_is_part_of_the_identity(daemon, tmp_path, engine):
    engine.fill(1)
    assert engine.offloaded(keys(), PAGES)
    with Engine(tmp_path / "model", daemon.socket,
                MHATokenToKVPool(64, layers=LAYERS - 1)) as other:
        assert other.lookup(keys()) == []



@pytest.mark.parametrize("extra, said", [
    ({"on_reset": "forget"}, "on_reset"), ({"lookup_ms": 1}, "lookup_us"),
    ({"load_timeout_s": 0}, "load_timeout_s"), ({"durable": "yes"}, "durable")])
def test_a_wrong_key_is_named_with_its_remedy(tmp_path, library, extra, said):
    with pytest.raises(Misuse, match=said):
        Engine(tmp_path / "model", str(tmp_path / "nobody"), **extra)


def test_a_kind_of_model_that_isnt_known_is_refused(tmp_path, library):
    class MHATokenToKVPoolFP4(MHATokenToKVPool):
        pass

    with pytest.raises(Misuse, match="MHATokenToKVPoolFP4.*HiCache instead"):
        Engine(tmp_path / "model", str(tmp_path / "nobody"), MHATokenToKVPoolFP4(8))


def test_a_draft_model_that_isnt_known_is_refused(tmp_path, library):
    with pytest.raises(Misuse, match="draft"):
        Engine(tmp_path / "model", str(tmp_path / "nobody"),
               more_params={"sidecar_draft_device_pools": (object(),)})
