/* The functions of <stdlib.h> that apps in C use, for WebAssembly without a C library. rosemary_wasm.c has them.
 *
 * `free` only returns the block that was allocated last, so an app allocates at its start and keeps what it has. An app
 * that needs more is built with the C library of a WASI SDK instead of this folder. */
#ifndef ROSEMARY_WASM_STDLIB_H
#define ROSEMARY_WASM_STDLIB_H

#include <stddef.h>

void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void free(void *block);
_Noreturn void abort(void);

#endif
