// Sums of rows at the leaves of trees, and of leaves at inner nodes. No Python here.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "target.hpp"
#include "threads.hpp"
#include "tile.hpp"
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

// A row's weight, and its weighted number.
struct alignas(16) WeightedNumber {
    double weight, number;
};

// Trees that predict the same column of the target, and that the rows of a tile are added to.
struct TreeSums {
    static constexpr std::size_t kMost = 8;
    const std::uint16_t* leaves;  // (tree, row), kTile rows per tree
    double* sums[kMost];
};

// Adds consecutive rows to their leaves in several trees. Target columns with one number per row and no squares have a
// loop of their own: each addition to a leaf depends on the previous one, and interleaving trees hides the latency.
class TileSums {
public:
    // Starts with n rows and a target column.
    void start(const Target& target, std::int32_t column, Range rows, std::size_t n) {
        target_ = &target;
        column_ = column;
        rows_ = rows;
        n_ = n;
        if (target.has_classes() || target.n_sums() != 2) return;
        numbers_.resize(n);
        for (std::size_t i = 0; i < n; ++i) {
            const double w = target.weight(rows[i]);
            numbers_[i] = {w, w * target.numbers[static_cast<std::size_t>(rows[i]) * target.stride + column]};
        }
    }
    void add(const TreeSums& trees, std::size_t n_trees, InterruptPoller& poller) const {
        if (target_->has_classes() || target_->n_sums() != 2) {
            for (std::size_t k = 0; k < n_trees; ++k) {
                add_rows(*target_, column_, trees.leaves + k * kTile, rows_, n_, poller, trees.sums[k]);
            }
            return;
        }
        poller.count(static_cast<std::int64_t>(n_ * n_trees));
        if (n_trees == TreeSums::kMost) return add_numbers<TreeSums::kMost>(trees.leaves, trees.sums);
        for (std::size_t k = 0; k < n_trees; ++k) add_numbers<1>(trees.leaves + k * kTile, trees.sums + k);
    }

private:
    const Target* target_ = nullptr;
    std::int32_t column_ = 0;
    Range rows_{0};
    std::size_t n_ = 0;
    std::vector<WeightedNumber> numbers_;

    template <std::size_t Trees>
    void add_numbers(const std::uint16_t* leaves, double* const* given) const {
        double* sums[Trees];
        std::copy_n(given, Trees, sums);
        for (const WeightedNumber row : numbers_) {
            for (std::size_t k = 0; k < Trees; ++k) {
                double* at = sums[k] + std::size_t{2} * leaves[k * kTile];
                const double weight = at[0] + row.weight, sum = at[1] + row.number;
                at[0] = weight;
                at[1] = sum;
            }
            ++leaves;
        }
    }
};

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
