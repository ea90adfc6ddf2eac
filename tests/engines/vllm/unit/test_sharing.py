# SPDX-License-Identifier: Apache-2.0
"""Goal: requests, ranks and engines share pages exactly when the bytes are the same.

Method: rig.py, whose model's values depend on an adapter's weights as a real one's do; a page that
was shared wrongly is a wrong byte. Covers O1-06, O4-13.
"""
import pytest
from vllm.lora.request import LoRARequest

from rig import LATENT, PAGE
from scene import daemon, filled, make_rig, prompt, seed, settle, whole  # noqa: F401


def adapter(folder, weights, number=1):
    """(LoRARequest, what the model's values depend on)."""
    folder.mkdir(exist_ok=True)
    (folder / "adapter_config.json").write_text("{}")
    (folder / "adapter_model.safetensors").write_bytes(weights)
    return dict(lora_request=LoRARequest("adapter", number, str(folder)), salt=weights)


def run(rig, name, tokens, **values):
    """How many tokens of it were found."""
    before = rig.hits
    rig.add(name, tokens, **values)
    rig.run()
    rig.check_output(name, tokens)
    return rig.hits - before


def test_an_adapters_pages_are_its_own(make_rig, settle, tmp_path):
    one = prompt(1, 150)
    rig = make_rig()
    assert run(rig, "a", one, **adapter(tmp_path / "a", b"A")) == 0
    settle()
    rig = make_rig()
    assert run(rig, "a", one, **adapter(tmp_path / "a", b"A")) == 4 * PAGE
    assert run(rig, "base", one) == 0
    rig.check_empty()


def test_other_weights_under_the_same_name_and_path_share_nothing(make_rig, settle, tmp_path):
    one = prompt(1, 150)
    assert run(make_rig(), "old", one, **adapter(tmp_path / "a", b"old")) == 0
    settle()
    for weights, found in ((b"new", 0), (b"new", 4 * PAGE), (b"old", 4 * PAGE)):
        rig = make_rig()
        assert run(rig, "r", one, **adapter(tmp_path / "a", weights)) == found
        settle()
        rig.check_empty()


def test_weights_replaced_while_an_engine_runs_are_neither_loaded_nor_stored(
        make_rig, settle, tmp_path):
    """vLLM goes on with what it has in memory, whatever lies in the folder."""
    one, two = prompt(1, 150), prompt(2, 150)
    rig = make_rig()
    held = adapter(tmp_path / "a", b"old")
    assert run(rig, "before", one, **held) == 0
    adapter(tmp_path / "a", b"new")
    assert run(rig, "after", two, **held) == 0
    stored = settle()["pages_put_stored"]
    assert stored == 4
    rig = make_rig()
    assert run(rig, "next", two, **adapter(tmp_path / "a", b"new")) == 0


def test_latent_vectors_are_stored_once_and_loaded_by_all_ranks(make_rig, filled, settle):
    prompts = filled([prompt(i, 150) for i in range(3)], specs=LATENT, ranks=2)
    counters = settle()
    assert counters["pages_put_stored"] == counters["pages_put"] == 12
    rig = make_rig(specs=LATENT, ranks=2)
    rig.generate(prompts)
    assert rig.hits == whole(prompts)
    assert rig.counts()["load_pages_ok"] == 2 * 12
    rig.check_empty()


def test_replicas_share_while_both_run(make_rig, settle):
    prompts = [prompt(i, 150) for i in range(4)]
    one, two = make_rig(), make_rig()
    one.generate(prompts[:2])
    two.generate(prompts[2:])
    settle()
    one.generate(prompts[2:], name="more")
    two.generate(prompts[:2], name="more")
    assert one.hits == two.hits == whole(prompts[:2])


def test_the_roles_do_their_part(make_rig, settle):
    prompts = [prompt(i, 150) for i in range(2)]
    consumer = make_rig(role="kv_consumer")
    consumer.generate(prompts)
    assert settle()["pages_put"] == 0
    producer = make_rig(role="kv_producer")
    producer.generate(prompts)
    assert settle()["pages_put_stored"] == 8 and producer.asked
    producer.scheduler.reset_prefix_cache()
    producer.generate(prompts, name="again")
    assert producer.hits == 0
    consumer.scheduler.reset_prefix_cache()
    consumer.generate(prompts, name="again")
    assert consumer.hits == whole(prompts)


@pytest.mark.parametrize("skip", [True, False])
def test_a_request_that_skips_prefix_reading_finds_nothing(make_rig, filled, skip):
    from vllm import SamplingParams
    one, = filled([prompt(1, 150)])
    rig = make_rig()
    request = rig.request("r", one)
    request.sampling_params = SamplingParams(max_tokens=4, skip_reading_prefix_cache=skip)
    request.skip_reading_prefix_cache = skip
    rig.outputs["r"], rig.salts["r"] = [], b""
    rig.scheduler.add_request(request)
    rig.run()
    rig.check_output("r", one)
    assert rig.hits == (0 if skip else 4 * PAGE)


def test_a_prompt_is_not_gone_over_again_with_every_step(make_rig, monkeypatch):
    """Part of the HF3FS connector's defect 10: it hashes all tokens whenever a block is full."""
    from kvsidecar.vllm import pages, requests
    joined, work = pages.joined_keys, []

    def counted(hashes, stride, content_id, count):
        work.append(max(count, 0))
        return joined(hashes, stride, content_id, count)

    for module in (pages, requests):
        monkeypatch.setattr(module, "joined_keys", counted)
    rig = make_rig()
    rig.generate([prompt(1, 150)], max_tokens=200)
    assert rig.steps > 200
    # Once for its lookup, and each page once when it is whole.
    assert sum(work) <= 4 + (150 + 200) // PAGE
