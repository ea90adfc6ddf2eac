# SPDX-License-Identifier: Apache-2.0
"""SGLang's process-wide configuration: the arguments as given, and what has become of them."""


class RuntimeContext:
    def __init__(self):
        self._server_args = None
        self._resolved = {}
        self._overrides_log = []

    @property
    def server_args(self):
        if self._server_args is None:
            raise ValueError("Global server args is not set yet!")
        return self._server_args

    def set_server_args(self, server_args):
        self._server_args = server_args

    def override(self, source, **fields):
        self._overrides_log.append((source, fields))
        self._resolved.update(fields)

    def overrides_log(self):
        return [(source, dict(fields)) for source, fields in self._overrides_log]

    def config_leaf(self, name):
        if name not in self._resolved:
            raise ValueError(f"{name!r} is not a config leaf (no namespace)")
        return self._resolved[name]


_CONTEXT = RuntimeContext()


def get_context():
    return _CONTEXT


def get_server_args():
    return _CONTEXT.server_args
