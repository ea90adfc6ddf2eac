# SPDX-License-Identifier: Apache-2.0
"""Stands in for vLLM: on a device other than CUDA SGLang takes one operator from it."""
