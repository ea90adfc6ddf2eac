# SPDX-License-Identifier: Apache-2.0
"""Goal: SGLang's own client for 3FS stores and finds pages through our protocol code.

Method: its Hf3fsUsrBioClient in its own environment, over hf3fs_fuse.io of this folder.
"""
import os

import pytest

torch = pytest.importorskip("torch")
client_module = pytest.importorskip(
    "sglang.srt.mem_cache.storage.hf3fs.hf3fs_usrbio_client")

PAGE = 256 << 10
ENTRIES = 8
PAGES = 64


@pytest.fixture
def client(folder):
    made = client_module.Hf3fsUsrBioClient(
        path=os.path.join(folder, "hicache.0.bin"), size=PAGE * PAGES, bytes_per_page=PAGE,
        entries=ENTRIES, client_timeout=20)
    yield made
    made.close()


def page(number):
    return torch.randint(0, 256, (PAGE,), dtype=torch.uint8,
                         generator=torch.Generator().manual_seed(number))


def write_pages(client, numbers):
    return client.batch_write([n * PAGE for n in numbers], [page(n) for n in numbers])


def read_pages(client, numbers):
    pages = [torch.zeros(PAGE, dtype=torch.uint8) for _ in numbers]
    return client.batch_read([n * PAGE for n in numbers], pages), pages


def test_the_binding_was_found():
    assert client_module.HF3FS_AVAILABLE


def test_pages_come_back_byte_for_byte(client):
    for first in range(0, PAGES, ENTRIES):
        numbers = list(range(first, first + ENTRIES))
        assert write_pages(client, numbers) == [PAGE] * ENTRIES
    for first in range(0, PAGES, ENTRIES):
        numbers = list(range(first, first + ENTRIES))
        results, pages = read_pages(client, numbers)
        assert results == [PAGE] * ENTRIES
        for number, found in zip(numbers, pages):
            assert torch.equal(found, page(number)), number


def test_pages_are_read_in_any_order(client):
    numbers = [5, 1, 7, 3]
    assert write_pages(client, numbers) == [PAGE] * 4
    results, pages = read_pages(client, numbers[::-1])
    assert results == [PAGE] * 4
    for number, found in zip(numbers[::-1], pages):
        assert torch.equal(found, page(number)), number


def test_a_page_that_was_never_written_is_short(client):
    # The chunks are larger than pages: page 40 lies in a chunk of which nothing is stored.
    assert write_pages(client, [0]) == [PAGE]
    results, _ = read_pages(client, [40])
    assert results == [0]


def test_a_page_is_written_anew(client):
    assert write_pages(client, [2]) == [PAGE]
    assert client.batch_write([2 * PAGE], [page(99)]) == [PAGE]
    client.flush()
    results, pages = read_pages(client, [2])
    assert results == [PAGE]
    assert torch.equal(pages[0], page(99))


def test_clients_of_several_ranks_share_a_mount(folder):
    clients = [client_module.Hf3fsUsrBioClient(
        path=os.path.join(folder, f"hicache.{rank}.bin"), size=PAGE * PAGES, bytes_per_page=PAGE,
        entries=ENTRIES, client_timeout=20) for rank in range(4)]
    for rank, each in enumerate(clients):
        assert each.batch_write([0], [page(rank)]) == [PAGE]
    for rank, each in enumerate(clients):
        results, pages = read_pages(each, [0])
        assert results == [PAGE]
        assert torch.equal(pages[0], page(rank)), rank
    for each in clients:
        each.close()


def test_closing_leaves_no_links_and_no_open_files(folder):
    iovs = os.path.join(folder, "3fs-virt", "iovs")
    if not os.path.isdir(iovs):
        pytest.skip("the folder isn't the mount itself: its links can't be listed")

    def use_one():
        made = client_module.Hf3fsUsrBioClient(
            path=os.path.join(folder, "hicache.0.bin"), size=PAGE * PAGES, bytes_per_page=PAGE,
            entries=ENTRIES, client_timeout=20)
        assert write_pages(made, [0]) == [PAGE]
        made.shm_r_tensor = made.shm_w_tensor = None  # else its shared memory can't be closed
        made.close()

    use_one()  # the library keeps some things open for the process
    before = sorted(os.listdir(iovs)), len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        use_one()
    assert (sorted(os.listdir(iovs)), len(os.listdir("/proc/self/fd"))) == before
