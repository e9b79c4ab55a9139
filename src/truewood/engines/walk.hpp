// Rows down a tree. No Python here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "bit_tree.hpp"
#include "matrix.hpp"
#include "threads.hpp"
#include "tree.hpp"

namespace truewood {

// Rows that follow each other.
struct Range {
    std::int64_t first;
    std::int64_t operator[](std::size_t k) const { return first + static_cast<std::int64_t>(k); }
};

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

// Rows that follow each other, and a copy of their values in tiles; empty where it was not made.
struct Block {
    Range rows;
    std::size_t n;
    std::vector<float> floats;
    std::vector<double> doubles;
};

// A tree and the rows of a matrix, whatever their types are.
class Walker {
public:
    virtual ~Walker() = default;
    virtual void pack(const Source& tree) = 0;
    // Takes the rows of a block, which are to go through many small trees.
    virtual void load(Block& block) const = 0;
    // Places of the leaves of the rows of a block.
    virtual void find(Block& block, Pacer& pacer, std::int32_t* leaves) const = 0;
    virtual const Structure& structure() const = 0;
    // Places of the leaves of listed rows, or of n rows that follow each other.
    virtual void find(const std::int64_t* rows, std::size_t n, Pacer& pacer, std::int32_t* leaves) const = 0;
    virtual void find(Range rows, std::size_t n, Pacer& pacer, std::int32_t* leaves) const = 0;
    virtual void find_swapped(const std::int64_t* rows, const std::int64_t* donors, std::size_t n, Pacer& pacer,
                              std::int32_t* leaves) const = 0;
    virtual std::size_t row_size() const = 0;
    // Another one of the same matrix.
    virtual std::unique_ptr<Walker> copy() const = 0;
};

template <bool HasMissing, bool HasCategories, class Matrix>
class WalkerOf final : public Walker {
public:
    WalkerOf(const Matrix& matrix, std::size_t n_features) : matrix_(matrix), n_features_(n_features) {}
    void pack(const Source& tree) override {
        tree_.pack(tree, n_features_);
        bit_tree_.pack(tree_, HasCategories);
    }
    void load(Block& block) const override {
        if constexpr (std::is_same_v<Matrix, DenseMatrix<T>>) {
            std::vector<T>& tiles = tiles_of(block);
            tiles.resize((block.n + kTile<T> - 1) / kTile<T> * kTile<T> * n_features_);
            for (std::size_t i = 0; i < block.n; ++i) {
                const auto row = matrix_.row(block.rows[i]);
                T* into = tiles.data() + i / kTile<T> * kTile<T> * n_features_ + i % kTile<T>;
                for (std::size_t j = 0; j < n_features_; ++j) into[j * kTile<T>] = row[static_cast<std::int32_t>(j)];
            }
        }
    }
    void find(Block& block, Pacer& pacer, std::int32_t* leaves) const override {
        const std::vector<T>& tiles = tiles_of(block);
        if (!bit_tree_.fits() || tiles.empty()) return find(block.rows, block.n, pacer, leaves);
        pacer.count(static_cast<std::int64_t>(block.n) * 4);
        bit_tree_.find(tiles.data(), n_features_, block.n, leaves);
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
    std::size_t row_size() const override { return matrix_.row_size(); }
    std::unique_ptr<Walker> copy() const override { return std::make_unique<WalkerOf>(matrix_, n_features_); }

private:
    using T = typename Matrix::Value;
    Matrix matrix_;
    std::size_t n_features_;
    PackedTree<T> tree_;
    BitTree<HasMissing, T> bit_tree_;

    static std::vector<T>& tiles_of(Block& block) {
        if constexpr (std::is_same_v<T, float>) return block.floats;
        else return block.doubles;
    }
};

}  // namespace truewood
