// SIMD dispatch: compiles a function with and without AVX2; the loader selects the version that the processor supports.
// Both versions do the same additions and multiplications, so that results do not depend on the choice.
#pragma once

#include <cstddef>  // defines __GLIBC__: only glibc selects a version at load time

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define TRUEWOOD_SIMD_DISPATCH __attribute__((target_clones("avx2", "default")))
#else
#define TRUEWOOD_SIMD_DISPATCH
#endif

#if defined(__GNUC__) && defined(__x86_64__)
namespace truewood {

inline bool has_avx2() {
    static const bool has = __builtin_cpu_supports("avx2");
    return has;
}
inline bool has_avx512() {
    static const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
    return has;
}

}  // namespace truewood
#endif
