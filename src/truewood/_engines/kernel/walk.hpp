// Sends rows down one tree. No Python here.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "matrix.hpp"
#include "threads.hpp"
#include "tree.hpp"

namespace truewood {

// Sends n rows down a tree. `walks` has the type `Row`, and for each number: row(), start() (the place to start from),
// finish() with the leaf, and prefetch(). Many rows walk at the same time, so that the processor advances others while
// one waits for memory. Every few steps, new rows replace those that have reached their leaf.
template <bool HasMissing, bool HasCategories, class T, class Walks>
void walk(const PackedTree<T>& tree, const Walks& walks, std::size_t n, InterruptPoller& poller) {
    constexpr std::size_t kLanes = 16;
    constexpr int kSteps = 6;
    if (n == 0) return;
    typename Walks::Row row[kLanes];
    std::int32_t place[kLanes];
    std::size_t number[kLanes];  // n or more if the lane is idle
    std::size_t n_started = kLanes;
    for (std::size_t k = 0; k < kLanes; ++k) {
        number[k] = k;
        row[k] = walks.row(k < n ? k : 0);
        place[k] = walks.start(k < n ? k : 0);
    }
    for (std::size_t n_done = 0; n_done < n;) {
        poller.count(kLanes * kSteps);
        for (int step = 0; step < kSteps; ++step) {
            for (std::size_t k = 0; k < kLanes; ++k) {
                place[k] = tree.template next<HasMissing, HasCategories>(place[k], row[k][tree.feature(place[k])]);
            }
        }
        for (std::size_t k = 0; k < kLanes; ++k) {
            if (number[k] >= n || !tree.is_leaf(place[k])) continue;
            walks.finish(number[k], place[k]);
            ++n_done;
            number[k] = n_started;
            if (n_started >= n) continue;
            row[k] = walks.row(n_started);
            place[k] = walks.start(n_started++);
            if (n_started + kLanes < n) walks.prefetch(n_started + kLanes);
        }
    }
}

// Rows that walk from the root.
template <class Matrix, class Rows>
struct WalksFromRoot {
    using Row = typename Matrix::Row;
    const Matrix& matrix;
    const Rows& rows;
    std::int32_t* leaves;

    Row row(std::size_t i) const { return matrix.row(rows[i]); }
    std::int32_t start(std::size_t) const { return 0; }
    void finish(std::size_t i, std::int32_t leaf) const { leaves[i] = leaf; }
    void prefetch(std::size_t i) const { matrix.prefetch(rows[i]); }
};

// Finds the leaves of n rows, by place.
template <bool HasMissing, bool HasCategories, class Matrix, class Rows>
void find_leaves(const PackedTree<typename Matrix::Value>& tree, const Matrix& matrix, const Rows& rows, std::size_t n,
                 InterruptPoller& poller, std::int32_t* leaves) {
    walk<HasMissing, HasCategories>(tree, WalksFromRoot<Matrix, Rows>{matrix, rows, leaves}, n, poller);
}

// Rows with one column taken from the donor, from the first split that sends them elsewhere.
template <class Matrix>
struct SwappedWalks {
    struct Row {
        typename Matrix::Row own;
        std::int32_t swapped;
        typename Matrix::Value value;
        auto operator[](std::int32_t feature) const { return feature == swapped ? value : own[feature]; }
    };
    struct Walk {
        Row row;
        std::int32_t start;
        std::int32_t* leaf;
    };
    std::vector<Walk> walks;

    const Row& row(std::size_t i) const { return walks[i].row; }
    std::int32_t start(std::size_t i) const { return walks[i].start; }
    void finish(std::size_t i, std::int32_t leaf) const { *walks[i].leaf = leaf; }
    void prefetch(std::size_t) const {}
};

// Finds the leaf, by place, of each row when one column at a time is taken from the donor of the row: (row, column).
// Columns whose swap changes no split on the row's path cost nothing, because they do not change the leaf.
template <bool HasMissing, bool HasCategories, class Matrix>
void find_swapped_leaves(const PackedTree<typename Matrix::Value>& tree, const Matrix& matrix, const std::int64_t* rows,
                         const std::int64_t* donors, std::size_t n, std::size_t n_features, InterruptPoller& poller,
                         std::int32_t* leaves) {
    constexpr std::size_t kRows = 256;  // the walks of these rows should fit into the cache
    SwappedWalks<Matrix> swapped;
    std::vector<std::int32_t> own(kRows), changed, start(n_features, -1);
    for (std::size_t first = 0; first < n; first += kRows) {
        const std::size_t n_here = std::min(kRows, n - first);
        find_leaves<HasMissing, HasCategories>(tree, matrix, rows + first, n_here, poller, own.data());
        swapped.walks.clear();
        for (std::size_t i = 0; i < n_here; ++i) {
            const auto donor = matrix.row(donors[first + i]);
            std::int32_t* out = leaves + (first + i) * n_features;
            std::fill(out, out + n_features, own[i]);
            // From the leaf up, so that the last place to be stored for a column is below the first split that changes.
            for (std::int32_t place = own[i]; place > 0;) {
                const std::int32_t above = tree.structure().parent[place], feature = tree.feature(above);
                const std::int32_t next = tree.template next<HasMissing, HasCategories>(above, donor[feature]);
                if (next != place) {
                    if (start[feature] < 0) changed.push_back(feature);
                    start[feature] = next;
                }
                place = above;
            }
            for (const std::int32_t feature : changed) {
                swapped.walks.push_back(
                    {{matrix.row(rows[first + i]), feature, donor[feature]}, start[feature], out + feature});
                start[feature] = -1;
            }
            changed.clear();
        }
        poller.count(static_cast<std::int64_t>(n_here) * 16);
        walk<HasMissing, HasCategories>(tree, swapped, swapped.walks.size(), poller);
    }
}

}  // namespace truewood
