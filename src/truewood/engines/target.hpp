// What trees are scored by: classes or numbers of rows, and their sums at nodes. No Python here.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "threads.hpp"
#include "tree.hpp"

namespace truewood {

struct Target {
    const std::int32_t* codes;  // n_outputs a row; null where the target is numbers
    const double* numbers;      // `stride` a row
    std::size_t stride;
    std::size_t n_outputs;
    std::size_t n_columns;            // of a node's value
    const std::int64_t* columns;      // output o has the columns columns[o] .. columns[o + 1]
    const double* row_weight;         // null: every row counts once
    bool has_squares;                 // whether squares of numbers are summed, too
    const double* largest = nullptr;  // absolute value, a column; for scores only

    bool has_classes() const { return codes != nullptr; }
    double weight(std::int64_t row) const { return row_weight ? row_weight[row] : 1.0; }
    // Sums at a node: the weight, those of the columns, and those of the squares.
    std::size_t n_sums() const { return 1 + n_columns + (has_squares ? n_columns : 0); }
};

// Trees of at most so many nodes are summed by chunks of so many of the listed rows; the sums of chunks are added in
// their order. Rows of larger trees are one chunk. Within a chunk, sums are taken in the order of the rows.
constexpr std::size_t kFewNodes = 1024;
constexpr std::size_t kChunk = 2048;

inline std::size_t chunk_size(std::size_t n_nodes, std::size_t n_rows) {
    return n_nodes <= kFewNodes ? kChunk : n_rows;
}

// Adds n rows to their leaves, leaves[i] that of rows[i]; `column` is that of the target that the tree speaks of.
template <class Leaves, class Rows>
void add_rows(const Target& target, std::int32_t column, const Leaves& leaves, const Rows& rows, std::size_t n,
              Pacer& pacer, double* sums) {
    const std::size_t width = target.n_sums(), n_columns = target.n_columns;
    pacer.count(static_cast<std::int64_t>(n));
    if (target.has_classes()) {
        const std::size_t n_outputs = target.n_outputs;
        for (std::size_t i = 0; i < n; ++i) {
            const double w = target.weight(rows[i]);
            double* at = sums + static_cast<std::size_t>(leaves[i]) * width;
            const std::int32_t* code = target.codes + static_cast<std::size_t>(rows[i]) * n_outputs;
            at[0] += w;
            for (std::size_t o = 0; o < n_outputs; ++o) at[1 + target.columns[o] + code[o]] += w;
        }
        return;
    }
    for (std::size_t i = 0; i < n; ++i) {
        const double w = target.weight(rows[i]);
        double* at = sums + static_cast<std::size_t>(leaves[i]) * width;
        const double* y = target.numbers + static_cast<std::size_t>(rows[i]) * target.stride + column;
        at[0] += w;
        for (std::size_t o = 0; o < n_columns; ++o) {
            const double weighted = w * y[o];
            at[1 + o] += weighted;
            if (target.has_squares) at[1 + n_columns + o] += weighted * y[o];
        }
    }
}

// One tree among several that rows are added to at once.
struct TreeSums {
    std::int32_t column;
    const std::int32_t* leaves;
    double* sums;
};
constexpr std::size_t kTreesAtOnce = 4;

// The same for some trees, at most kTreesAtOnce. An addition to a leaf waits for the one before, so of one number a row
// and no squares, weight and sum are added at once, and to several trees in turn.
template <class Rows>
void add_rows(const Target& target, const TreeSums* trees, std::size_t n_trees, const Rows& rows, std::size_t n,
              Pacer& pacer) {
    if (target.has_classes() || target.n_sums() != 2 || n_trees != kTreesAtOnce) {
        for (std::size_t k = 0; k < n_trees; ++k) {
            add_rows(target, trees[k].column, trees[k].leaves, rows, n, pacer, trees[k].sums);
        }
        return;
    }
    pacer.count(static_cast<std::int64_t>(n * n_trees));
    for (std::size_t i = 0; i < n; ++i) {
        const double w = target.weight(rows[i]);
        const double* y = target.numbers + static_cast<std::size_t>(rows[i]) * target.stride;
        for (std::size_t k = 0; k < kTreesAtOnce; ++k) {
            double* at = trees[k].sums + static_cast<std::size_t>(trees[k].leaves[i]) * 2;
            const double weight = at[0] + w, sum = at[1] + w * y[trees[k].column];
            at[0] = weight;
            at[1] = sum;
        }
    }
}

// Adds a chunk's sums to those of the chunks before, and empties it.
inline void add_chunk(std::vector<double>& chunk, double* sums) {
    for (std::size_t k = 0; k < chunk.size(); ++k) {
        sums[k] += chunk[k];
        chunk[k] = 0.0;
    }
}

// Leaves that are listed for all rows.
struct LeavesOfAll {
    const std::int32_t* leaves;
    const std::int64_t* rows;
    std::int32_t operator[](std::size_t i) const { return leaves[rows[i]]; }
    LeavesOfAll operator+(std::size_t n) const { return {leaves, rows + n}; }
};

// Sums of listed rows at their leaves, chunk by chunk; `sums` are zeros.
template <class Leaves>
void sum_rows(const Target& target, std::int32_t column, const Leaves& leaves, const std::int64_t* rows, std::size_t n,
              std::size_t n_nodes, Pacer& pacer, std::vector<double>& chunk, double* sums) {
    const std::size_t size = chunk_size(n_nodes, n);
    if (size >= n) return add_rows(target, column, leaves, rows, n, pacer, sums);
    chunk.assign(n_nodes * target.n_sums(), 0.0);
    for (std::size_t start = 0; start < n; start += size) {
        const std::size_t n_here = std::min(size, n - start);
        add_rows(target, column, leaves + start, rows + start, n_here, pacer, chunk.data());
        add_chunk(chunk, sums);
    }
}

// Every inner node becomes left child + right child.
inline void add_up(const Structure& tree, std::size_t width, double* sums) {
    for (std::size_t p = tree.n_nodes(); p-- > 0;) {
        if (tree.left[p] < 0) continue;
        const double* left = sums + static_cast<std::size_t>(tree.left[p]) * width;
        double* into = sums + p * width;
        for (std::size_t c = 0; c < width; ++c) into[c] = left[c] + left[width + c];
    }
}

}  // namespace truewood
