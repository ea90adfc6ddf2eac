# SPDX-License-Identifier: Apache-2.0
"""SGLang imports this name when it builds a rotary embedding, and calls it only on a GPU."""


def rotary_embedding(*_, **__):
    raise NotImplementedError("a CPU run uses SGLang's own rotary embedding")
