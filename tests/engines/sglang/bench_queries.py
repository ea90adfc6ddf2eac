# SPDX-License-Identifier: Apache-2.0
"""What asking for pages takes: by one caller, and by the ranks of an engine at once."""
import statistics
import time

from waiting import readable

QUESTIONS = 12  # by one caller, of each size and round
APART_S = 0.003  # after which both sides sleep and caches hold other things


def apart(count):
    """The row of questions that come one by one, as prompts do, and not at each other's heels."""
    return f"{count} apart"


def alone(times, backends, inputs, keys_of):
    """keys_of: {number of keys: keys that are stored}."""
    for count, keys in keys_of.items():
        for backend in inputs.shuffled(backends):
            times.add(count, backend, _median(backend, keys, 0))
            times.add(apart(count), backend, _median(backend, keys, APART_S))


def _median(backend, keys, pause_s):
    seconds = []
    for _ in range(QUESTIONS):
        if pause_s:
            readable([], pause_s)
        began = time.perf_counter()
        found = backend.query(keys)
        seconds.append(time.perf_counter() - began)
        assert found == len(keys), f"{backend.name} found {found} of {len(keys)} pages"
    return statistics.median(seconds)


def together(times, ranks, names, inputs, questions):
    for name in inputs.shuffled(names):
        seconds = sorted(ranks.ask(name, questions))
        times.of["ranks"][name].append(seconds[int(0.99 * len(seconds))])
