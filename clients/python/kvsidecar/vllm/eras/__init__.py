# SPDX-License-Identifier: Apache-2.0
"""What differs between the releases of vLLM that the connector serves, one file per range. A range
is told by what the installed base class has, never by its version string, so that a release in
between or a patched one is treated as what it is."""
from __future__ import annotations

from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1 import base


def current() -> Any:
    """The module of the installed release."""
    if hasattr(base.KVConnectorBase_V1, "unregister_kv_caches"):
        from . import since_0_33
        return since_0_33
    if hasattr(base.KVConnectorBase_V1, "get_external_cache_hit_sources"):
        from . import since_0_32
        return since_0_32
    if hasattr(base, "KVConnectorTransferResults"):
        from . import since_0_30
        return since_0_30
    from . import since_0_28
    return since_0_28
