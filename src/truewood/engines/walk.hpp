// Rows down a tree. No Python here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "bit_tree.hpp"
#include "matrix.hpp"
#include "project.hpp"
#include "threads.hpp"
#include "tile.hpp"
#include "tree.hpp"

namespace truewood {

// Places of the leaves of n rows. Many rows are under way at a time, so that the processor has other rows to work on
// while one waits for memory. After every few steps, rows that have reached their leaf make room for the next ones.
template <bool HasMissing, bool HasCategories, class Matrix, class Rows>
void find_leaves(const PackedTree<typename Matrix::Value>& tree, const Matrix& matrix, const Rows& rows, std::size_t n,
                 Pacer& pacer, std::int32_t* leaves) {
    constexpr std::size_t kLanes = 16;
    constexpr int kSteps = 6;
    if (n == 0) return;
    typename Matrix::Row row[kLanes];
    std::int32_t place[kLanes];
    std::size_t number[kLanes];  // n or more: the lane has no row of its own and idles
    std::size_t n_started = kLanes;
    for (std::size_t k = 0; k < kLanes; ++k) {
        number[k] = k;
        row[k] = matrix.row(rows[k < n ? k : 0]);
        place[k] = 0;
    }
    for (std::size_t n_done = 0; n_done < n;) {
        pacer.count(kLanes * kSteps);
        for (int step = 0; step < kSteps; ++step) {
            for (std::size_t k = 0; k < kLanes; ++k) {
                place[k] = tree.template next<HasMissing, HasCategories>(place[k], row[k][tree.feature(place[k])]);
            }
        }
        for (std::size_t k = 0; k < kLanes; ++k) {
            if (number[k] >= n || !tree.is_leaf(place[k])) continue;
            leaves[number[k]] = place[k];
            ++n_done;
            number[k] = n_started;
            if (n_started >= n) continue;
            row[k] = matrix.row(rows[n_started++]);
            place[k] = 0;
            if (n_started + kLanes < n) matrix.prefetch(rows[n_started + kLanes]);
        }
    }
}

// For each row (in `rows`, with a donor each) and each of `n_features` columns: the place of the leaf it reaches when
// that column's value is the donor's. A column that is not on the row's path changes nothing and costs nothing.
template <bool HasMissing, bool HasCategories, class Matrix>
void find_swapped_leaves(const PackedTree<typename Matrix::Value>& tree, const Matrix& matrix, const std::int64_t* rows,
                         const std::int64_t* donors, std::size_t n, std::size_t n_features, Pacer& pacer,
                         std::int32_t* leaves) {
    std::vector<std::int32_t> first_on_path;
    std::vector<std::size_t> seen_at(n_features, 0);
    for (std::size_t i = 0; i < n; ++i) {
        const auto row = matrix.row(rows[i]);
        const auto donor = matrix.row(donors[i]);
        first_on_path.clear();
        std::int32_t place = 0;
        while (!tree.is_leaf(place)) {
            pacer.count(1);
            const std::int32_t feature = tree.feature(place);
            if (seen_at[feature] != i + 1) {
                seen_at[feature] = i + 1;
                first_on_path.push_back(place);
            }
            place = tree.template next<HasMissing, HasCategories>(place, row[feature]);
        }
        std::int32_t* out = leaves + i * n_features;
        for (std::size_t j = 0; j < n_features; ++j) out[j] = place;
        for (const std::int32_t start : first_on_path) {
            const std::int32_t swapped = tree.feature(start);
            const auto value = donor[swapped];
            std::int32_t at = start;
            while (!tree.is_leaf(at)) {
                pacer.count(1);
                const std::int32_t feature = tree.feature(at);
                at = tree.template next<HasMissing, HasCategories>(at, feature == swapped ? value : row[feature]);
            }
            out[swapped] = at;
        }
    }
}

// A tree and the rows of a matrix, whatever their types are.
class Walker {
public:
    virtual ~Walker() = default;
    virtual void pack(const Source& tree) = 0;
    // For blocks of rows that are to go through many small trees: takes the splits of the tree, and knows what stands
    // for their thresholds when those of all trees have been taken; copies the rows of a block.
    virtual void add_splits(TileColumns& columns) const = 0;
    virtual void pack_bits(const TileColumns& columns) = 0;
    virtual void load(const TileColumns& columns, Block& block) const = 0;
    // Places of the leaves of the rows of a block.
    virtual void find(const TileColumns& columns, const Block& block, Pacer& pacer, std::int32_t* leaves) const = 0;
    virtual const Structure& structure() const = 0;
    // Places of the leaves of listed rows, or of n rows that follow each other.
    virtual void find(const std::int64_t* rows, std::size_t n, Pacer& pacer, std::int32_t* leaves) const = 0;
    virtual void find(Range rows, std::size_t n, Pacer& pacer, std::int32_t* leaves) const = 0;
    virtual void find_swapped(const std::int64_t* rows, const std::int64_t* donors, std::size_t n, Pacer& pacer,
                              std::int32_t* leaves) const = 0;
    // What the tree says without groups of columns, added to `out`.
    virtual void project(const ProjectionCall& call, Pacer& pacer, Projected& out) const = 0;
    virtual std::size_t row_size() const = 0;
    // Another one of the same matrix.
    virtual std::unique_ptr<Walker> copy() const = 0;
};

template <bool HasMissing, bool HasCategories, class Matrix>
class WalkerOf final : public Walker {
public:
    WalkerOf(const Matrix& matrix, std::size_t n_features) : matrix_(matrix), n_features_(n_features) {}
    void pack(const Source& tree) override { tree_.pack(tree, n_features_); }
    void add_splits(TileColumns& columns) const override {
        if (!can_have_bits()) return;
        const Structure& tree = structure();
        for (std::int32_t place = 0; place < static_cast<std::int32_t>(tree.n_nodes()); ++place) {
            if (tree.left[place] >= 0) columns.add(tree.feature[place], tree_.threshold(place));
        }
    }
    void pack_bits(const TileColumns& columns) override {
        bits_.clear();
        if (can_have_bits() && has_tiles(columns)) bits_.pack(tree_, columns);
    }
    void load(const TileColumns& columns, Block& block) const override {
        if constexpr (kIsDense) {
            if (has_tiles(columns)) columns.load(matrix_, block);
        }
    }
    void find(const TileColumns& columns, const Block& block, Pacer& pacer, std::int32_t* leaves) const override {
        if (bits_.empty()) return find(block.rows, block.n, pacer, leaves);
        pacer.count(static_cast<std::int64_t>(block.n) * 4);
        bits_.find(block, columns.size(), leaves);
    }
    const Structure& structure() const override { return tree_.structure(); }
    void find(const std::int64_t* rows, std::size_t n, Pacer& pacer, std::int32_t* leaves) const override {
        find_leaves<HasMissing, HasCategories>(tree_, matrix_, rows, n, pacer, leaves);
    }
    void find(Range rows, std::size_t n, Pacer& pacer, std::int32_t* leaves) const override {
        find_leaves<HasMissing, HasCategories>(tree_, matrix_, rows, n, pacer, leaves);
    }
    void find_swapped(const std::int64_t* rows, const std::int64_t* donors, std::size_t n, Pacer& pacer,
                      std::int32_t* leaves) const override {
        find_swapped_leaves<HasMissing, HasCategories>(tree_, matrix_, rows, donors, n, n_features_, pacer, leaves);
    }
    void project(const ProjectionCall& call, Pacer& pacer, Projected& out) const override {
        Projector<HasMissing, HasCategories, Matrix>(tree_, matrix_, call, pacer, out).run();
    }
    std::size_t row_size() const override { return matrix_.row_size(); }
    std::unique_ptr<Walker> copy() const override { return std::make_unique<WalkerOf>(matrix_, n_features_); }

private:
    using T = typename Matrix::Value;
    Matrix matrix_;
    std::size_t n_features_;
    PackedTree<T> tree_;
    BitTree<HasMissing> bits_;
    static constexpr bool kIsDense = std::is_same_v<Matrix, DenseMatrix<T>>;

    bool can_have_bits() const { return kIsDense && !HasCategories && BitTree<HasMissing>::fits(structure()); }
    static bool has_tiles(const TileColumns& columns) {
        return std::is_same_v<T, float> || columns.are_worth_a_search();
    }
};

}  // namespace truewood
