# SPDX-License-Identifier: Apache-2.0
add_compile_options(-Wall -Wextra -Wconversion -Wshadow -Wno-missing-field-initializers -Werror)
