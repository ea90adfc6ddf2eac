# SPDX-License-Identifier: Apache-2.0
"""How a plug-in's keys are read: whatever is wrong raises Misuse with a sentence that names where
the key stands, the key, the value and what to do; nothing is guessed."""
from __future__ import annotations

import difflib
import json
import math
from typing import Any, Dict, Iterable, Mapping, NamedTuple, Optional, Tuple, Union

from ..errors import Misuse


class Text(NamedTuple):
    """A non-empty str."""

    default: Optional[str]
    help: str


class Choice(NamedTuple):
    """One of a few words; `refused`: words that are known but can't be had, with the reason."""

    default: str
    words: Tuple[str, ...]
    help: str
    refused: Mapping[str, str] = {}


class Switch(NamedTuple):
    """true or false."""

    default: bool
    help: str


class Number(NamedTuple):
    """An int, or a float unless `whole`; scale turns it into the setting's unit."""

    default: float
    least: float
    most: float
    help: str
    whole: bool = False
    scale: float = 1


Key = Union[Text, Choice, Switch, Number]

# Name: (setting, how it is read). Units stand last in a key's name; settings are in seconds.
Keys = Mapping[str, Tuple[str, Key]]


def read_keys(where: str, keys: Keys, given: Mapping[str, Any]) -> Dict[str, Any]:
    """By setting, from what an operator has written at `where`; what isn't given has its default.
    Names that `keys` doesn't know aren't looked at: see unknown()."""
    return {setting: _read(where, name, key, given[name]) if name in given else _default(key)
            for name, (setting, key) in keys.items()}


def unknown(where: str, keys: Keys, name: Any, value: Any,
            others: Iterable[str] = ()) -> Misuse:
    """For a key that nobody knows: names the nearest known one, else all of kvsidecar's. others:
    keys of the engine itself that may stand there too."""
    near = difflib.get_close_matches(str(name), [*keys, *others], 1, 0.5)
    remedy = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(keys))}"
    return Misuse(f"{where}: {name} = {show(value)} isn't a key of kvsidecar; {remedy}")


def _default(key: Key) -> Any:
    return _scaled(key.default, key) if isinstance(key, Number) else key.default


def _scaled(value: float, key: Number) -> Union[int, float]:
    return int(value) if key.whole else float(value) * key.scale


def show(value: Any) -> str:
    """As it stood in the JSON, cut where it is long."""
    try:
        text = json.dumps(value)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _read(where: str, name: str, key: Key, value: Any) -> Any:
    def refuse(remedy: str) -> Misuse:
        return Misuse(f"{where}: {name} is {show(value)}; {remedy}")

    if isinstance(key, Text):
        if not isinstance(value, str) or not value or "\0" in value:
            raise refuse("give a text that isn't empty, or leave the key out")
        return value
    if isinstance(key, Choice):
        if isinstance(value, str) and value in key.refused:
            raise refuse(f"{key.refused[value]}; set it to {' or '.join(key.words)}")
        if not isinstance(value, str) or value not in key.words:
            raise refuse(f"set it to {' or '.join(key.words)}")
        return value
    if isinstance(key, Switch):
        if not isinstance(value, bool):
            raise refuse("set it to true or false")
        return value
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not (whole or (isinstance(value, float) and not key.whole and math.isfinite(value))):
        raise refuse("give a whole number" if key.whole else "give a number")
    if not key.least <= value <= key.most:
        raise refuse(f"it must be {key.least:g} to {key.most:g}")
    return _scaled(value, key)
