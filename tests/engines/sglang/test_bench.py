# SPDX-License-Identifier: Apache-2.0
"""Goal: the side-by-side benchmark measures what it says, and never counts a get of wrong bytes.

Method: one round of a few pages on the real backends, without the metadata server, whose start
takes longer than all of this; backends and times of our own where something has to be wrong.
"""
import os

import bench_hicache
import pytest
import torch
from bench_backends import FILE, HTTP, LOCAL, OURS, Files
from bench_hicache import Bench, arguments, be_a_worker
from bench_pages import Inputs, Shape
from bench_rows import ROWS, figures_of
from bench_transfers import Times, WrongBytes, in_memory

SMALL = Shape(layers=1, heads=1, head_dim=8, pages=8)
ONE_ROUND = arguments(["--rounds", "1", "--pages", "4"])
ALONE = set(ROWS) - {"ranks"}


@pytest.fixture
def few_bytes(monkeypatch):
    be_a_worker()
    monkeypatch.setattr(bench_hicache, "HF3FS_LARGE_BYTES", 16 << 20)
    monkeypatch.setattr(bench_hicache, "POOL_MIB", 64)
    monkeypatch.setattr(bench_hicache, "QUERIES", (8, 16))


def test_every_row_of_every_backend_becomes_a_figure(few_bytes):
    with Bench(ONE_ROUND, (OURS, LOCAL, FILE)) as bench:
        bench.measure(ALONE)
    times = {name: set(of) for name, of in bench.times.of.items()}
    assert times == dict.fromkeys((8, "8 apart", 16, "16 apart", "set", "store", "get", "cpu",
                                   "read"), {OURS, LOCAL, FILE})
    figures = figures_of(bench.times, ALONE - {"query"}, 4)
    assert len(figures) == 5 * 2
    assert all(figure.value > 0 and figure.floor > 0 for figure in figures)
    assert not os.path.exists(bench.folder)


class Forgetful(Files):
    """Says that it has read pages of which one bit isn't what was stored."""

    def get(self, keys, slots):
        super().get(keys, slots)
        keys_of_a_token = self.pages.host.kv_buffer.view(torch.uint8)[0, int(slots[-1])]
        keys_of_a_token.view(-1)[-1] ^= 1


def test_a_get_of_wrong_bytes_ends_the_benchmark(tmp_path):
    be_a_worker()
    honest, other = Files(str(tmp_path), SMALL), Forgetful(str(tmp_path), SMALL)
    in_memory(Times(), [honest], Inputs(1), SMALL, 4)
    with pytest.raises(WrongBytes, match="file: a page that was got"):
        in_memory(Times(), [other], Inputs(1), SMALL, 4)
    honest.close()
    other.close()


def test_wrong_bytes_are_exit_code_1_and_leave_nothing(monkeypatch, capsys):
    folders = []

    def measure(bench, rows):
        folders.append(bench.folder)
        raise WrongBytes("a page")

    monkeypatch.setattr(Bench, "measure", measure)
    assert bench_hicache.main([]) == 1
    assert "a page" in capsys.readouterr().err
    assert not os.path.exists(folders[0])


def reach_of(row, name, ours, theirs, other=HTTP):
    times = Times()
    times.of[name][OURS], times.of[name][other] = ours, theirs
    figure, = [one for one in figures_of(times, {row}, 64)]
    return figure.ok


def test_a_reach_needs_the_median_of_the_rounds_to_be_so_many_times_faster():
    assert reach_of("ranks", "ranks", [1, 1, 1], [10, 10, 2])
    assert not reach_of("ranks", "ranks", [1, 1, 1], [10, 9, 9])


def test_processor_time_may_not_be_more():
    assert reach_of("cpu", "cpu", [1, 1, 1], [1, 1, 0.5])
    assert not reach_of("cpu", "cpu", [1, 1, 1], [1, 0.9, 0.9])


def test_the_same_seed_asks_for_the_same():
    def draw(seed):
        inputs = Inputs(seed)
        return (inputs.keys(3), inputs.values(SMALL, 2), inputs.slots(SMALL, 4).tolist(),
                inputs.shuffled(range(20)))

    assert draw(5) == draw(5)
    assert all(one != other for one, other in zip(draw(5), draw(6)))
