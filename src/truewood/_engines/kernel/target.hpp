// The target that trees are scored by, classes or numbers, and its sums at nodes. No Python here.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
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
    const double* origin = nullptr;   // what was subtracted from numbers, by column; null: zero
    const double* largest = nullptr;  // absolute value by column; for scores only

    bool has_classes() const { return codes != nullptr; }
    double weight(std::int64_t row) const { return row_weight ? row_weight[row] : 1.0; }
    // Sums at a node: the weight, one per column, and one per squared column.
    std::size_t n_sums() const { return 1 + n_columns + (has_squares ? n_columns : 0); }
};

// Rows of trees with at most kFewNodes nodes are summed in chunks of kChunk rows, and the sums of chunks are added in
// order, so that threads can share the rows. Rows of larger trees are one chunk. Within a chunk, rows are summed in
// order.
constexpr std::size_t kFewNodes = 1024;
constexpr std::size_t kChunk = 2048;

inline std::size_t chunk_size(std::size_t n_nodes, std::size_t n_rows) {
    return n_nodes <= kFewNodes ? kChunk : n_rows;
}

// Adds n rows to their leaves: leaves[i] is that of rows[i]. `column` is the column of the target that the tree
// predicts.
template <class Leaves, class Rows>
void add_rows(const Target& target, std::int32_t column, const Leaves& leaves, const Rows& rows, std::size_t n,
              InterruptPoller& poller, double* sums) {
    const std::size_t width = target.n_sums(), n_columns = target.n_columns;
    poller.count(static_cast<std::int64_t>(n));
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

// One of several trees that rows are added to together.
struct TreeSums {
    std::int32_t column;
    const std::int32_t* leaves;
    double* sums;
};
constexpr std::size_t kTreesAtOnce = 4;

// The same for at most kTreesAtOnce trees. It is separate for speed: an addition to a leaf waits for the one before it,
// so with one number per row and no squares, rows are added to several trees in turn.
template <class Rows>
void add_rows(const Target& target, const TreeSums* trees, std::size_t n_trees, const Rows& rows, std::size_t n,
              InterruptPoller& poller) {
    if (target.has_classes() || target.n_sums() != 2 || n_trees != kTreesAtOnce) {
        for (std::size_t k = 0; k < n_trees; ++k) {
            add_rows(target, trees[k].column, trees[k].leaves, rows, n, poller, trees[k].sums);
        }
        return;
    }
    poller.count(static_cast<std::int64_t>(n * n_trees));
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

// Adds a chunk's sums to those of the chunks before, and resets the chunk.
inline void add_chunk(std::vector<double>& chunk, double* sums) {
    for (std::size_t k = 0; k < chunk.size(); ++k) {
        sums[k] += chunk[k];
        chunk[k] = 0.0;
    }
}

// Leaves of listed rows, from an array of the leaves of all rows.
struct LeavesOfAll {
    const std::int32_t* leaves;
    const std::int64_t* rows;
    std::int32_t operator[](std::size_t i) const { return leaves[rows[i]]; }
    LeavesOfAll operator+(std::size_t n) const { return {leaves, rows + n}; }
};

// Sums listed rows at their leaves, chunk by chunk; `sums` is initially zero.
template <class Leaves>
void sum_rows(const Target& target, std::int32_t column, const Leaves& leaves, const std::int64_t* rows, std::size_t n,
              std::size_t n_nodes, InterruptPoller& poller, std::vector<double>& chunk, double* sums) {
    const std::size_t size = chunk_size(n_nodes, n);
    if (size >= n) return add_rows(target, column, leaves, rows, n, poller, sums);
    chunk.assign(n_nodes * target.n_sums(), 0.0);
    for (std::size_t start = 0; start < n; start += size) {
        const std::size_t n_here = std::min(size, n - start);
        add_rows(target, column, leaves + start, rows + start, n_here, poller, chunk.data());
        add_chunk(chunk, sums);
    }
}

// Sets every inner node to left child + right child. children(node) gives the positions of the children, which come
// after their parent; the left one is negative at leaves.
template <class Children>
void aggregate_to_root(std::size_t n_nodes, std::size_t width, double* sums, const Children& children) {
    for (std::size_t node = n_nodes; node-- > 0;) {
        const auto [left, right] = children(node);
        if (left < 0) continue;
        const double *from_left = sums + static_cast<std::size_t>(left) * width,
                     *from_right = sums + static_cast<std::size_t>(right) * width;
        double* into = sums + node * width;
        for (std::size_t c = 0; c < width; ++c) into[c] = from_left[c] + from_right[c];
    }
}

inline void aggregate_to_root(const Structure& tree, std::size_t width, double* sums) {
    aggregate_to_root(tree.n_nodes(), width, sums,
                      [&](std::size_t place) { return std::pair(tree.left[place], tree.left[place] + 1); });
}

}  // namespace truewood
