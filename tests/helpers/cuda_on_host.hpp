// What cuda_kernels.cuh needs of a C++ compiler: one block of threads after the other, each phase a loop.
#pragma once

#include <algorithm>
#include <cstring>

#define KERNEL extern "C" void
#define INLINE inline
#define SHARED unsigned char* const shared = launch.shared;
#define FOR_THREADS(tid) for (unsigned tid = 0; tid < launch.block_size; ++tid)
#define WAIT
#define BLOCK_X launch.block_x
#define BLOCK_Y launch.block_y
#define GRID_X launch.grid_x
#define GRID_Y launch.grid_y
#define BLOCK_SIZE launch.block_size
#define __align__(n) alignas(n)

// The block that is run next.
struct Launch {
    unsigned block_x, block_y, grid_x, grid_y, block_size;
    unsigned char* shared;
};
static Launch launch;

extern "C" void set_launch(unsigned block_x, unsigned block_y, unsigned grid_x, unsigned grid_y, unsigned block_size,
                           unsigned char* shared) {
    launch = {block_x, block_y, grid_x, grid_y, block_size, shared};
}

using std::min;

template <class T>
T atomicAdd(T* to, T amount) {
    const T before = *to;
    *to += amount;
    return before;
}

inline long long __double_as_longlong(double x) {
    long long bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits;
}
