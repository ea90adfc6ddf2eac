# SPDX-License-Identifier: Apache-2.0
"""Goal: the hand-written package that tests/python/sglang uses is what SGLang's own is.

Method: names, fields, parameters and defaults of the one compared with those of the other, so that
a release that changes them is noticed.
"""
import dataclasses
import importlib.util
import inspect
import os

import controllers
import pools
import pytest
from pools import PoolName
from sglang.srt.mem_cache import hicache_storage
from sglang.srt.observability import metrics_collector


def fake(path):
    """A module of the fake, under a name of its own."""
    root = os.path.join(os.path.dirname(__file__), "..", "..", "python", "sglang", "fake", "sglang")
    spec = importlib.util.spec_from_file_location(
        "fake_" + path.replace("/", "_"), os.path.join(root, path + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fields(kind):
    return [(field.name, field.default is dataclasses.MISSING and
             field.default_factory is dataclasses.MISSING) for field in dataclasses.fields(kind)]


def parameters(function):
    return [(name, one.default is inspect.Parameter.empty)
            for name, one in inspect.signature(function).parameters.items()]


@pytest.mark.parametrize("name", ["HiCacheStorageConfig", "HiCacheStorageExtraInfo", "PoolTransfer",
                                  "PoolTransferResult"])
def test_the_fakes_types_have_the_fields_of_the_real_ones(name):
    assert fields(getattr(fake("srt/mem_cache/hicache_storage"), name)) == fields(
        getattr(hicache_storage, name))


def test_the_fakes_storage_has_the_methods_of_the_real_one():
    made = fake("srt/mem_cache/hicache_storage").HiCacheStorage
    real = hicache_storage.HiCacheStorage
    names = [name for name in vars(real) if inspect.isfunction(vars(real)[name])]
    assert {name: parameters(getattr(made, name)) for name in names} == {
        name: parameters(getattr(real, name)) for name in names}
    assert made.__abstractmethods__ == real.__abstractmethods__


def test_the_fakes_names_and_numbers_are_the_real_ones():
    made = fake("srt/mem_cache/hicache_storage")
    assert {name.value for name in made.PoolName} <= {
        name.value for name in hicache_storage.PoolName}
    assert {policy.value for policy in made.PoolHitPolicy} == {
        policy.value for policy in hicache_storage.PoolHitPolicy}
    assert made.STORAGE_BATCH_SIZE == hicache_storage.STORAGE_BATCH_SIZE
    assert fields(fake("srt/observability/metrics_collector").StorageMetrics) == fields(
        metrics_collector.StorageMetrics)
    assert fake("version").__version__ == __import__("sglang").__version__


@pytest.mark.parametrize("kinds", [("mha",), ("mla+indexer",), ("mha", "mamba")])
def test_real_host_pools_have_what_the_fakes_pretend(kinds):
    controllers._once()
    for part in pools.build(kinds, 4, "page_first", "shm").values():
        layers = () if part.name == PoolName.MAMBA else ("start_layer", "end_layer", "layer_num")
        for name in ("layout", "dtype", "page_size", "size", "allocator", "storage_format_tag",
                     "shared_allocation_domain", "get_page_buffer_meta", "get_data_page",
                     "get_dummy_flat_data_page", "set_from_flat_data_page", *layers):
            assert hasattr(part.host, name), f"{type(part.host).__name__}.{name}"
        assert len(part.host.allocator.fds) == len(part.host.allocator.mms)
        part.host.destroy()


def test_sglangs_log_of_changes_tells_what_door_a_looks_for():
    """That weights were loaded anew from files; test_hicache_update.py has it happen."""
    from sglang.srt.runtime_context import get_context
    assert isinstance(get_context()._overrides_log, list)
    source = inspect.getsource(type(get_context()).override)
    assert "_overrides_log.append((source, " in source
    from sglang.srt.model_executor.model_runner import ModelRunner
    assert "model_path=model_path" in inspect.getsource(ModelRunner.update_model_fields)
