# SPDX-License-Identifier: Apache-2.0
"""How a test and the linkers of an engine's ranks call the files between them."""
NAMES = ("counts", "poison", "armed", "reached", "open", "blind", "mute", "broken")


def of_rank(path, rank, ranks):
    """The path that is meant for one rank."""
    return f"{path}.{rank}" if path and ranks > 1 else path
