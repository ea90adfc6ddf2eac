# SPDX-License-Identifier: Apache-2.0
"""What the plug-ins of engines share: reading settings, telling weights apart, the connection."""
