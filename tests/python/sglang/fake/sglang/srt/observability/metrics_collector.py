# SPDX-License-Identifier: Apache-2.0
"""What a storage backend's get_stats gives SGLang's metrics."""
from dataclasses import dataclass, field


@dataclass
class StorageMetrics:
    prefetch_pgs: list = field(default_factory=list)
    backup_pgs: list = field(default_factory=list)
    prefetch_bandwidth: list = field(default_factory=list)
    backup_bandwidth: list = field(default_factory=list)
