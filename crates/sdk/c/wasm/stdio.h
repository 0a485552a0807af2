/* The functions of <stdio.h> that apps in C use for their log, for WebAssembly without a C library. rosemary_wasm.c has them.
 *
 * They know the conversions d i u x X c s p %, the flags 0 and -, a width and a precision, also as `*`, and the lengths hh h l ll z. */
#ifndef ROSEMARY_WASM_STDIO_H
#define ROSEMARY_WASM_STDIO_H

#include <stdarg.h>
#include <stddef.h>

__attribute__((format(printf, 3, 0))) int vsnprintf(char *text, size_t size, const char *format, va_list arguments);
__attribute__((format(printf, 3, 4))) int snprintf(char *text, size_t size, const char *format, ...);

#endif
