# SPDX-License-Identifier: Apache-2.0
# The schema's header is generated into the build folder: it asserts the exact FlatBuffers version.
find_program(FLATC flatc REQUIRED)
set(KVSIDECAR_GENERATED ${PROJECT_BINARY_DIR}/generated)
add_custom_command(
  OUTPUT ${KVSIDECAR_GENERATED}/kvsidecar_generated.h
  COMMAND ${FLATC} --cpp --scoped-enums -o ${KVSIDECAR_GENERATED} ${PROJECT_SOURCE_DIR}/ipc/kvsidecar.fbs
  DEPENDS ${PROJECT_SOURCE_DIR}/ipc/kvsidecar.fbs
  COMMENT "Generating the wire schema")
