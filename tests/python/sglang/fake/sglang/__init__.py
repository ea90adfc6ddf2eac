# SPDX-License-Identifier: Apache-2.0
"""A hand-written stand-in for the types of SGLang 0.5.23 that plug-ins meet, so that they can be
tested without it. tests/engines/sglang checks it against the real package."""
