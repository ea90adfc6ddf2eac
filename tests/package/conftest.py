# SPDX-License-Identifier: Apache-2.0
"""The daemon of the tests' own is the one that all folders share."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                                "harness"))
