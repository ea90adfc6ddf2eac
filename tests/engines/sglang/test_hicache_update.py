# SPDX-License-Identifier: Apache-2.0
"""Goal: an engine whose weights are updated while it runs loads no page of the weights of before.

Method: one engine, whose model's folder gets other files; SGLang's own routes for the update and
the clear, with a new weight_version, without one, and with the storage detached meanwhile.
"""
import json
import shutil

from engine import PAGE, model_path, prompt, storage
from hicache_bed import HICACHE, extra, flush, same, stored
from waiting import eventually

LONG = prompt(1, 1000)
PAGES = 15
HIT = PAGES * PAGE
ROUTE = "/hicache/storage-backend"


class Served:
    """An engine over a folder whose weights change."""

    def __init__(self, engine, daemon, folder):
        self.engine, self.daemon, self.folder = engine, daemon, str(folder)
        self.flags = storage(HICACHE, **extra(daemon, allocator="shm"))
        self.start("llama")

    def start(self, model):
        self.engine.close()
        self._put(model)
        self.engine.start(self.folder, admin_api_key="secret", **self.flags)

    def _put(self, model):
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(model_path(model), self.folder)

    def update(self, model, **more):
        self._put(model)
        status, text = self.engine.http("POST", "/update_weights_from_disk",
                                        {"model_path": self.folder, **more})
        assert status == 200 and json.loads(text)["success"], text

    def clear(self):
        assert self.engine.http("POST", ROUTE + "/clear")[0] == 200

    def computes(self, want):
        """All of it, as that model does."""
        output = self.engine.generate([LONG])
        return same(output, want) and output[0].cached == 0

    def stores_and_loads(self, want):
        """Computed before: its pages come to the daemon, and from it."""
        eventually(lambda: stored(self.daemon) >= self.pages + PAGES, "pages are stored",
                   seconds=60)
        self.pages = stored(self.daemon)
        flush(self.engine)
        output = self.engine.generate([LONG])
        flush(self.engine)
        return same(output, want) and output[0].sources.get("storage") == HIT

    pages = 0


def test_no_page_of_weights_that_were_replaced_is_loaded(engine, reference, start_daemon, tmp_path):
    old, new = reference("llama", [LONG]), reference("llama-other", [LONG])
    assert not same(old, new)
    daemon = start_daemon()
    served = Served(engine, daemon, tmp_path / "model")
    assert served.computes(old) and served.stores_and_loads(old)

    served.update("llama-other")
    assert served.computes(new), "until the clear it loads nothing"
    flush(engine)
    served.clear()
    served.pages = stored(daemon)
    assert served.computes(new) and served.stores_and_loads(new)

    served.update("llama", weight_version="2")
    assert served.computes(old), "until the clear it loads nothing"
    flush(engine)
    served.clear()
    assert served.computes(old) and served.stores_and_loads(old)

    eventually(lambda: engine.http("DELETE", ROUTE)[0] == 200, "it is detached")
    served.update("llama-other")
    eventually(lambda: engine.http("PUT", ROUTE, {
        "hicache_storage_backend": "dynamic",
        "hicache_storage_backend_extra_config_json":
            served.flags["hicache_storage_backend_extra_config"]})[0] == 200, "it is attached")
    assert served.computes(new) and served.stores_and_loads(new)


def test_an_engine_that_starts_again_loads_the_pages_of_the_weights_it_has_then(
        engine, reference, start_daemon, tmp_path):
    """What an updated engine has stored doesn't lie under the name of what it was started with."""
    old, new = reference("llama", [LONG]), reference("llama-other", [LONG])
    served = Served(engine, start_daemon(), tmp_path / "model")
    assert served.computes(old) and served.stores_and_loads(old)
    served.update("llama-other")
    served.clear()
    assert served.computes(new) and served.stores_and_loads(new)
    for model, want in (("llama", old), ("llama-other", new)):
        served.start(model)
        output = engine.generate([LONG])
        assert same(output, want) and output[0].sources.get("storage") == HIT
