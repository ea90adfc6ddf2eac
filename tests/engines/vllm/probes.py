# SPDX-License-Identifier: Apache-2.0
"""Commands of engine_process.py that look into a running engine. Each takes the Host."""


def connector(host):
    """The scheduler's side."""
    return type(host.scheduler.connector).__name__
