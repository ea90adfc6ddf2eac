# SPDX-License-Identifier: Apache-2.0
"""What the tests of door A share."""
HICACHE = "kvsidecar.sglang:HiCache"


def extra(daemon, **more):
    """Keys of the extra config: patience for a noisy machine, over which `more` goes."""
    return {"socket": daemon.socket, "lookup_deadline_ms": 1000, "staging_mib": 8, **more}
