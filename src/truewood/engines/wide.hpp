// Functions that are compiled twice, for processors with and without wider vectors; the faster one is chosen when the
// program starts. Both do the same additions and multiplications, so no bit depends on it.
#pragma once

#include <cstddef>  // tells whether the C library is glibc, which can choose; musl cannot

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define TRUEWOOD_WIDE __attribute__((target_clones("avx2", "default")))
#else
#define TRUEWOOD_WIDE
#endif
