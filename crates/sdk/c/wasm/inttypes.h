/* The formats of <inttypes.h> for WebAssembly without a C library. */
#ifndef ROSEMARY_WASM_INTTYPES_H
#define ROSEMARY_WASM_INTTYPES_H

#include <stdint.h>

#define PRId32 "d"
#define PRIu32 "u"
#define PRIx32 "x"
#define PRId64 "lld"
#define PRIu64 "llu"
#define PRIx64 "llx"

#endif
