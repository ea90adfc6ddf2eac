# SPDX-License-Identifier: Apache-2.0
"""What SGLang knows about itself in this process: its resolved configuration, its release."""
from __future__ import annotations

import re
from typing import Any, List, Tuple

_NOTHING = object()


class Facts:
    """One value of SGLang's configuration after another, by the name of the flag."""

    def __init__(self, server_args: Any = None, context: Any = None) -> None:
        """server_args: None where they can't be reached. context: SGLang's RuntimeContext, which
        knows what its own overrides have made of them."""
        self._args, self._context = server_args, context
        self._looked = (0, 0)  # entries of SGLang's log of changes, the last one about weights

    @property
    def known(self) -> bool:
        return self._args is not None

    def get(self, name: str, default: Any = None) -> Any:
        """As the engine uses it: after overrides, defaults filled in."""
        if self._context is not None:
            try:
                return self._context.config_leaf(name)
            except Exception:  # no such leaf in this release, or not published in this process
                pass
        value = getattr(self._args, name, _NOTHING)
        return default if value is _NOTHING else value

    def text(self, name: str) -> str:
        """The value as text, "" for nothing."""
        value = self.get(name)
        return "" if value is None else str(value)

    def loads(self) -> int:
        """Grows whenever SGLang has replaced its weights from files. Those that came from
        elsewhere, in tensors, leave no trace but a version. Any thread."""
        told = getattr(self._context, "_overrides_log", None)
        if not isinstance(told, list):  # its public twin copies all of it, thousands in time
            return 0
        looked, last = self._looked
        if looked != len(told):
            new = told[looked:]
            for number, (_, fields) in enumerate(new, looked + 1):
                last = number if "model_path" in fields else last
            self._looked = looked + len(new), last
        return last

    def adapters(self) -> List[Tuple[str, str]]:
        """(name, path) of the adapters that the engine was started with."""
        found = []
        given = self.get("lora_paths") or ()
        if isinstance(given, dict):
            given = [{"lora_name": name, "lora_path": path} for name, path in given.items()]
        for entry in given:
            if isinstance(entry, str):
                name, _, path = entry.rpartition("=")
                found.append((name or path, path))
            elif isinstance(entry, dict):
                found.append((str(entry.get("lora_name")), str(entry.get("lora_path"))))
            else:
                found.append((str(getattr(entry, "lora_name", None)),
                              str(getattr(entry, "lora_path", None))))
        return found


def facts_of_process(server_args: Any = None) -> Facts:
    """Of the engine whose process this is; server_args where the caller has them."""
    context = None
    try:
        from sglang.srt.runtime_context import get_context
        context = get_context()
        if server_args is None:
            server_args = context.server_args
    except Exception:  # an older release, or a process without an engine
        pass
    if server_args is None:
        try:
            from sglang.srt.server_args import get_global_server_args
            server_args = get_global_server_args()
        except Exception:
            pass
    return Facts(server_args, context)


def release() -> str:
    """"0.5.23" of SGLang: layouts and kernels may change from one to the next."""
    try:
        from sglang.version import __version__
    except Exception:
        try:
            from sglang import __version__
        except Exception:
            return "unknown"
    found = re.match(r"\d+(\.\d+)*", str(__version__))
    return found.group(0) if found else str(__version__)
