// Sums of rows at the leaves of trees, and of leaves at inner nodes. No Python here.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "target.hpp"
#include "threads.hpp"
#include "tree.hpp"

namespace truewood {

// In trees with at most kFewNodes nodes, rows are summed in chunks of kChunk rows and the chunks are added in order, so
// that threads can share the rows. In larger trees, all rows form one chunk. Within a chunk, rows are summed in order.
constexpr std::size_t kFewNodes = 1024;
constexpr std::size_t kChunk = 2048;

inline std::size_t chunk_size(std::size_t n_nodes, std::size_t n_rows) {
    return n_nodes <= kFewNodes ? kChunk : n_rows;
}

// Adds n rows to their leaves; leaves[i] is the leaf of rows[i]. `column` is the target column that the tree predicts.
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

// One of several trees that the same rows are added to.
struct TreeSums {
    std::int32_t column;
    const std::int32_t* leaves;
    double* sums;
};
constexpr std::size_t kTreesAtOnce = 4;

// Adds n rows to their leaves in up to kTreesAtOnce trees. This second loop exists for speed: each addition to a leaf
// depends on the previous one, so with one number per row and no squares, interleaving several trees hides the latency.
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

// Adds the sums of a chunk to those of earlier chunks, and resets the chunk.
inline void add_chunk(std::vector<double>& chunk, double* sums) {
    for (std::size_t k = 0; k < chunk.size(); ++k) {
        sums[k] += chunk[k];
        chunk[k] = 0.0;
    }
}

// Leaves of listed rows, looked up in an array of the leaves of all rows.
struct LeavesOfAll {
    const std::int32_t* leaves;
    const std::int64_t* rows;
    std::int32_t operator[](std::size_t i) const { return leaves[rows[i]]; }
    LeavesOfAll operator+(std::size_t n) const { return {leaves, rows + n}; }
};

// Listed rows of one tree, and their leaves.
template <class Leaves>
struct RowsAtLeaves {
    const std::int64_t* rows;
    Leaves leaves;
    std::size_t n;
};
template <class Leaves>
RowsAtLeaves(const std::int64_t*, Leaves, std::size_t) -> RowsAtLeaves<Leaves>;

// Sums listed rows at the leaves of a tree, chunk by chunk, into `sums`, which must be zero. `chunk` is scratch memory.
template <class Leaves>
void sum_rows(const Target& target, std::int32_t column, const RowsAtLeaves<Leaves>& listed, std::size_t n_nodes,
              InterruptPoller& poller, std::vector<double>& chunk, double* sums) {
    const std::size_t n = listed.n, size = chunk_size(n_nodes, n);
    if (size >= n) return add_rows(target, column, listed.leaves, listed.rows, n, poller, sums);
    chunk.assign(n_nodes * target.n_sums(), 0.0);
    for (std::size_t start = 0; start < n; start += size) {
        const std::size_t n_here = std::min(size, n - start);
        add_rows(target, column, listed.leaves + start, listed.rows + start, n_here, poller, chunk.data());
        add_chunk(chunk, sums);
    }
}

// Sets every inner node to the sum of its children. children(node) returns their positions, which follow their parent;
// the left one is negative at leaves.
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
