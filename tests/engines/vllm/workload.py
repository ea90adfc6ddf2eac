# SPDX-License-Identifier: Apache-2.0
"""Prompts of the tests, the same in each run."""
from engine import prompt


def shared_prefixes(count, prefixes=10, seed=1):
    """`count` prompts of up to 330 words, of which every `prefixes`th begins alike."""
    begins = [prompt(seed * 1000 + i, 96 + 32 * (i % 5)) for i in range(prefixes)]
    return [begins[i % prefixes] + prompt(seed * 100_000 + i, 20 + (i * 7) % 83)
            for i in range(count)]


def chats(count, seed=7):
    """Prompts of 150 to 300 words with nothing in common."""
    return [prompt(seed * 10_000 + i, 150 + (i * 37) % 151) for i in range(count)]
