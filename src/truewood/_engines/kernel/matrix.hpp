// Rows of a table, dense or sparse. No Python here.
#pragma once

#include <cstddef>
#include <cstdint>

namespace truewood {

inline void prefetch_line(const void* address) {
#if defined(__GNUC__)
    __builtin_prefetch(address);
#else
    (void)address;
#endif
}

// A row-major matrix.
template <class T>
struct DenseMatrix {
    using Value = T;
    const T* data;
    std::size_t n_features;
    struct Row {
        const T* values;
        T operator[](std::int32_t feature) const { return values[feature]; }
    };
    Row row(std::int64_t i) const { return {data + static_cast<std::size_t>(i) * n_features}; }
    void prefetch(std::int64_t i) const {
        // A narrow row fits into two cache lines, and of a wide row, a tree reads only a few values anyway.
        prefetch_line(row(i).values);
        prefetch_line(row(i).values + 64 / sizeof(T));
    }
    // Bytes per row.
    std::size_t row_size() const { return n_features * sizeof(T); }
};

// A CSR matrix with sorted column indices. Values that are not stored are `fill`.
template <class T>
struct SparseMatrix {
    using Value = T;
    const T* data;
    const std::int32_t* indices;
    const std::int64_t* indptr;
    T fill;
    std::size_t n_rows;
    struct Row {
        const T* values;
        const std::int32_t* columns;
        std::size_t n_stored;
        T fill;
        T operator[](std::int32_t feature) const {
            std::size_t low = 0, high = n_stored;
            while (low < high) {
                const std::size_t middle = (low + high) / 2;
                if (columns[middle] < feature) low = middle + 1;
                else high = middle;
            }
            return low < n_stored && columns[low] == feature ? values[low] : fill;
        }
    };
    void prefetch(std::int64_t i) const { prefetch_line(data + indptr[i]); }
    Row row(std::int64_t i) const {
        const std::int64_t start = indptr[i];
        return {data + start, indices + start, static_cast<std::size_t>(indptr[i + 1] - start), fill};
    }
    std::size_t row_size() const {
        return (sizeof(T) + sizeof(std::int32_t)) * static_cast<std::size_t>(indptr[n_rows]) / (n_rows ? n_rows : 1);
    }
};

}  // namespace truewood
