# SPDX-License-Identifier: Apache-2.0
"""Goal: KV cache memory that the daemon can't map is refused with what lies where and what to do.

Method: torch's own tensors, on a device of no memory and of storage that nobody shared.
"""
from types import SimpleNamespace

import pytest
import torch

from kvsidecar import Misuse
from kvsidecar.vllm.memory import HostDevice, device_for


def test_a_layer_on_another_device_is_named_with_its_device():
    with pytest.raises(Misuse, match=r"layer model\.layers\.3 lies on meta; .*--device cpu"):
        HostDevice().refresh({"model.layers.3": torch.zeros(4, device="meta")})


def test_memory_of_an_allocator_of_its_own_is_refused_with_the_flags():
    storage = torch.zeros(4096, dtype=torch.int8).untyped_storage()
    with pytest.raises(Misuse, match="can't be shared .*without sleep mode and custom allocators"):
        HostDevice().register(None, {storage.data_ptr(): storage}, 1.0)


def test_an_engine_on_another_device_is_refused():
    config = SimpleNamespace(device_config=SimpleNamespace(device_type="tpu"))
    with pytest.raises(Misuse, match="device is tpu; .*--device cpu"):
        device_for(config)
