// SIMD dispatch: functions compiled with and without AVX2, of which the faster one is chosen when the program starts.
// Both do the same additions and multiplications, so no bit depends on the choice.
#pragma once

#include <cstddef>  // defines __GLIBC__: only glibc can choose at load time

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define TRUEWOOD_SIMD_DISPATCH __attribute__((target_clones("avx2", "default")))
#else
#define TRUEWOOD_SIMD_DISPATCH
#endif
