# SPDX-License-Identifier: Apache-2.0
"""Goal: keys of two requests are equal exactly where the same tokens were computed from the same
inputs under the same adapter.

Method: vLLM's own Request and block hasher with LoRA requests, media features and salts, folded as
the scheduler's side does. A CPU can't run these models; the keys are the whole contract. Covers
O1-05, O1-06, O1-08.
"""
import itertools

import pytest
from vllm.lora.request import LoRARequest
from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange

from kvsidecar.vllm.adapters import USABLE, Adapters, fold
from kvsidecar.vllm.pages import joined_keys

PAGE = 32
IMAGE = PlaceholderRange(offset=40, length=16)  # in the second page


def image(identifier, position=IMAGE):
    return MultiModalFeatureSpec(data=None, modality="image", identifier=identifier,
                                 mm_position=position)


def keys(request, content_id=b""):
    return list(fold(request.block_hashes, content_id))


def common(one, other):
    """How many pages from the beginning have the same key; no later one may."""
    same = [a == b for a, b in zip(one, other)]
    count = same.index(False) if False in same else len(same)
    assert not any(same[count:]) and not set(one[count:]) & set(other)
    return count


def test_the_same_request_has_the_same_keys(make_request, hash_algorithm):
    one, two = [keys(make_request(algorithm=hash_algorithm, request_id=name)) for name in "ab"]
    assert one == two and len(one) == 4 and len(set(one)) == 4


def test_keys_part_where_tokens_do(make_request, hash_algorithm):
    tokens = list(range(3, 3 + 4 * PAGE))
    for at in (0, PAGE - 1, PAGE, 3 * PAGE):
        changed = tokens[:at] + [999] + tokens[at + 1:]
        one, other = [keys(make_request(t, hash_algorithm)) for t in (tokens, changed)]
        assert common(one, other) == at // PAGE


def test_another_image_has_other_keys_from_its_page_on(make_request, hash_algorithm):
    one, other, again, none = [
        keys(make_request(algorithm=hash_algorithm, mm_features=features))
        for features in ([image("a" * 64)], [image("a" * 63 + "b")], [image("a" * 64)], None)]
    assert one == again
    assert common(one, other) == common(one, none) == 1


def test_the_same_image_elsewhere_has_other_keys(make_request, hash_algorithm):
    moved = PlaceholderRange(offset=41, length=16)
    one, other = [keys(make_request(algorithm=hash_algorithm, mm_features=[image("a", at)]))
                  for at in (IMAGE, moved)]
    assert common(one, other) == 1


def test_images_in_another_order_have_other_keys(make_request, hash_algorithm):
    first, second = PlaceholderRange(offset=34, length=8), PlaceholderRange(offset=44, length=8)
    one, other = [keys(make_request(algorithm=hash_algorithm, mm_features=[
        image(names[0], first), image(names[1], second)])) for names in ("ab", "ba")]
    assert common(one, other) == 1


def write(folder, weights):
    folder.mkdir()
    (folder / "adapter_config.json").write_text("{}")
    (folder / "adapter_model.safetensors").write_bytes(weights)
    return str(folder)


@pytest.fixture
def adapters():
    found = Adapters()
    yield found
    found.close()


def content(adapters, request):
    adapters.prepare(request)
    adapters._work.join()
    state, content_id = adapters.content_id(request)
    assert state == USABLE
    return content_id


def test_another_content_under_the_same_adapter_name_has_other_keys(
        make_request, adapters, tmp_path, hash_algorithm):
    """vLLM's hashes can't tell them apart where the path is the same."""
    path = write(tmp_path / "a", b"one")
    before = LoRARequest("adapter", 1, path)
    one = keys(make_request(algorithm=hash_algorithm, lora_request=before),
               content(adapters, before))
    (tmp_path / "a" / "adapter_model.safetensors").write_bytes(b"two")
    after = LoRARequest("adapter", 2, path)  # as a restarted server loads it
    other = keys(make_request(algorithm=hash_algorithm, lora_request=after),
                 content(adapters, after))
    assert common(one, other) == 0


def test_the_number_of_an_adapter_is_nothing(make_request, adapters, tmp_path, hash_algorithm):
    path = write(tmp_path / "a", b"one")
    one, other = [LoRARequest("adapter", number, path) for number in (1, 9)]
    assert keys(make_request(algorithm=hash_algorithm, lora_request=one),
                content(adapters, one)) == keys(
        make_request(algorithm=hash_algorithm, lora_request=other), content(adapters, other))


def test_adapter_and_salt_never_stand_for_each_other(
        make_request, adapters, tmp_path, hash_algorithm):
    """Before 0.30 vLLM's own hashes do: adapter X without a salt is the salt X."""
    names = [None, "a", "ab", "b", "a|b", "a/b"]
    found = []
    for number, (adapter, salt) in enumerate(itertools.product(names, names), 1):
        lora = None if adapter is None else LoRARequest(adapter, number, write(
            tmp_path / str(number), b"w" + adapter.encode()))
        content_id = b"" if lora is None else content(adapters, lora)
        request = make_request(algorithm=hash_algorithm, lora_request=lora, cache_salt=salt)
        found.append(keys(request, content_id))
    assert sum(map(len, found)) == len({key for one in found for key in one})


def test_keys_fit_the_daemon_under_every_hash_algorithm(make_request, hash_algorithm):
    hashes = make_request(algorithm=hash_algorithm).block_hashes
    for content_id in (b"", b"i" * 16):
        found = joined_keys(hashes, 1, content_id, 4)
        assert 0 < found.key_bytes <= 64
        assert len(found.bytes) == found.key_bytes * found.count == found.key_bytes * 4


def test_a_coarser_page_is_named_by_the_prefix_up_to_its_end(make_request, hash_algorithm):
    fine = make_request(algorithm=hash_algorithm, page=PAGE).block_hashes
    found = joined_keys(fine, 2, b"", 2)
    assert [found.one(0), found.one(1)] == [fine[1], fine[3]]
