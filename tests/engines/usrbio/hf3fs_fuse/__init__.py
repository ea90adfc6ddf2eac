# SPDX-License-Identifier: Apache-2.0
"""What users of 3FS import from its Python binding, over whatever library has the C interface."""
