# SPDX-License-Identifier: Apache-2.0
"""SGLang's release."""
__version__ = "0.5.23"
