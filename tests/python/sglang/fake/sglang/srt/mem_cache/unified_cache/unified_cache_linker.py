# SPDX-License-Identifier: Apache-2.0
"""Door B's types as SGLang 0.5.23 has them, written by hand: what a linker inherits, and the
counter on which a forward waits for its layers."""
import abc
from concurrent.futures import Future


class LayerWiseLoadCounter:
    def __init__(self, num_layers, on_layer_ready=None):
        self.num_layers = num_layers
        self.on_layer_ready = on_layer_ready
        self.reset()

    def reset(self):
        self.producer_index = self.consumer_index = -1
        self.futures = {}

    def update_producer(self):
        self.producer_index += 1
        self.futures[self.producer_index] = [Future() for _ in range(self.num_layers)]
        return self.producer_index

    def set_consumer(self, index):
        self.consumer_index = index

    def complete(self, index, layer):
        self.futures[index][layer].set_result(None)

    def fail(self, index, error):
        for layer in self.futures.get(index, ()):
            if not layer.done():
                layer.set_exception(error)

    def wait_until(self, threshold):
        layers = self.futures.get(self.consumer_index)
        if layers is not None:
            layers[threshold].exception()

    def finish(self, index):
        layers = self.futures.get(index)
        if layers is None:
            return True
        landed = all([layer.exception() is None for layer in layers])
        del self.futures[index]
        return landed


class UnifiedCacheLinker(abc.ABC):
    forward_stream = None

    def record_offload_ready(self):
        raise AssertionError("there are no events without a device module")

    @abc.abstractmethod
    def lookup(self, rid, transfers):
        ...

    @abc.abstractmethod
    def load(self, rid, transfers):
        ...

    @abc.abstractmethod
    def start_layer_wise_loading(self):
        ...

    @abc.abstractmethod
    def finish_layer_wise_loading(self, counter_index):
        ...

    @abc.abstractmethod
    def cancel_queued_load(self, rid):
        ...

    @abc.abstractmethod
    def offload(self, transfers, session_id=None):
        ...

    @abc.abstractmethod
    def num_completed_offloads(self):
        ...

    @abc.abstractmethod
    def pop_completed_offload(self):
        ...

    @abc.abstractmethod
    def reset(self):
        ...

    @abc.abstractmethod
    def close(self):
        ...
