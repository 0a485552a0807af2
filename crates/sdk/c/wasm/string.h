/* The functions of <string.h> that apps in C use, for WebAssembly without a C library. rosemary_wasm.c has them. */
#ifndef ROSEMARY_WASM_STRING_H
#define ROSEMARY_WASM_STRING_H

#include <stddef.h>

void *memcpy(void *restrict to, const void *restrict from, size_t size);
void *memmove(void *to, const void *from, size_t size);
void *memset(void *to, int byte, size_t size);
int memcmp(const void *a, const void *b, size_t size);
size_t strlen(const char *text);

#endif
