// Sends rows down one tree. No Python here.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <variant>
#include <vector>

#include "joint_effects.hpp"
#include "matrix.hpp"
#include "quickscorer.hpp"
#include "sobol_projection.hpp"
#include "threads.hpp"
#include "tile.hpp"
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

// Holds one tree at a time, packed for the type of the rows.
class TreeHolder {
public:
    virtual ~TreeHolder() = default;
    virtual void pack(const TreeArrays& tree) = 0;
    virtual const Structure& structure() const = 0;
};

// Finds the leaves of rows, by place.
class LeafFinder : public TreeHolder {
public:
    virtual void find(const std::int64_t* rows, std::size_t n, InterruptPoller& poller, std::int32_t* leaves) const = 0;
    virtual void find(Range rows, std::size_t n, InterruptPoller& poller, std::int32_t* leaves) const = 0;
};

// Finds the leaves of rows when one column at a time is taken from a donor.
class SwappedLeafFinder : public TreeHolder {
public:
    virtual void find(const std::int64_t* rows, const std::int64_t* donors, std::size_t n, InterruptPoller& poller,
                      std::int32_t* leaves) const = 0;
};

// Projects groups of columns out of the tree.
class Projector : public TreeHolder {
public:
    virtual void project(const ProjectionCall& call, InterruptPoller& poller, Projected& out) const = 0;
};

// Adds joint effects of features in the tree; threads may share it.
class JointWalker : public TreeHolder {
public:
    virtual void add(const std::int64_t* rows, std::size_t n, const JointTree& tree, InterruptPoller& poller,
                     JointScratch& scratch, const JointEffects& out) const = 0;
};

// Finds the leaves of a block of rows in a small tree. Many trees share the columns of a block: all trees first add
// their splits, and then each tree packs its own.
class SmallTreeFinder : public TreeHolder {
public:
    virtual void add_splits(TileColumns& columns) const = 0;
    virtual void pack_splits(const TileColumns& columns) = 0;
    virtual void find(const TileColumns& columns, const Block& block, InterruptPoller& poller,
                      std::int32_t* leaves) const = 0;
};

// Copies the rows of a block for small trees.
class BlockLoader {
public:
    virtual ~BlockLoader() = default;
    virtual void load(const TileColumns& columns, Block& block) const = 0;
    virtual std::size_t row_size() const = 0;  // in bytes
};

// Common base of the finders for one type of rows.
template <class Interface, class Matrix>
class HolderOf : public Interface {
public:
    HolderOf(const Matrix& matrix, std::size_t n_features) : matrix_(matrix), n_features_(n_features) {}
    void pack(const TreeArrays& tree) override { tree_.pack(tree, n_features_); }
    const Structure& structure() const override { return tree_.structure(); }

protected:
    Matrix matrix_;
    std::size_t n_features_;
    PackedTree<typename Matrix::Value> tree_;
};

template <bool HasMissing, bool HasCategories, class Matrix>
class LeafFinderOf final : public HolderOf<LeafFinder, Matrix> {
public:
    using HolderOf<LeafFinder, Matrix>::HolderOf;
    void find(const std::int64_t* rows, std::size_t n, InterruptPoller& poller, std::int32_t* leaves) const override {
        find_leaves<HasMissing, HasCategories>(this->tree_, this->matrix_, rows, n, poller, leaves);
    }
    void find(Range rows, std::size_t n, InterruptPoller& poller, std::int32_t* leaves) const override {
        find_leaves<HasMissing, HasCategories>(this->tree_, this->matrix_, rows, n, poller, leaves);
    }
};

template <bool HasMissing, bool HasCategories, class Matrix>
class SwappedLeafFinderOf final : public HolderOf<SwappedLeafFinder, Matrix> {
public:
    using HolderOf<SwappedLeafFinder, Matrix>::HolderOf;
    void find(const std::int64_t* rows, const std::int64_t* donors, std::size_t n, InterruptPoller& poller,
              std::int32_t* leaves) const override {
        find_swapped_leaves<HasMissing, HasCategories>(this->tree_, this->matrix_, rows, donors, n, this->n_features_,
                                                       poller, leaves);
    }
};

template <bool HasMissing, bool HasCategories, class Matrix>
class SobolProjectorOf final : public HolderOf<Projector, Matrix> {
public:
    using HolderOf<Projector, Matrix>::HolderOf;
    void project(const ProjectionCall& call, InterruptPoller& poller, Projected& out) const override {
        TreeProjection<HasMissing, HasCategories, Matrix>(this->tree_, this->matrix_, call, poller, out).run();
    }
};

template <bool HasMissing, bool HasCategories, class Matrix>
class JointWalkerOf final : public HolderOf<JointWalker, Matrix> {
public:
    using HolderOf<JointWalker, Matrix>::HolderOf;
    void add(const std::int64_t* rows, std::size_t n, const JointTree& tree, InterruptPoller& poller,
             JointScratch& scratch, const JointEffects& out) const override {
        JointWalk<HasMissing, HasCategories, Matrix>(this->tree_, this->matrix_, tree, out, scratch)
            .run(rows, n, poller);
    }
};

// Whether blocks of rows are copied into tiles. Doubles need a search among thresholds, which pays off only for many
// splits.
template <class Matrix>
bool has_tiles(const TileColumns& columns) {
    using T = typename Matrix::Value;
    return std::is_same_v<Matrix, DenseMatrix<float>> ||
           (std::is_same_v<Matrix, DenseMatrix<T>> && columns.are_worth_a_search());
}

template <bool HasMissing, bool HasCategories, class Matrix>
class SmallTreeFinderOf final : public HolderOf<SmallTreeFinder, Matrix> {
public:
    using HolderOf<SmallTreeFinder, Matrix>::HolderOf;
    void add_splits(TileColumns& columns) const override {
        if (!can_use_quickscorer()) return;
        const Structure& tree = this->structure();
        for (std::int32_t place = 0; place < static_cast<std::int32_t>(tree.n_nodes()); ++place) {
            if (tree.left[place] >= 0) columns.add(tree.feature[place], this->tree_.threshold(place));
        }
    }
    void pack_splits(const TileColumns& columns) override {
        quickscorer_.clear();
        if (can_use_quickscorer() && has_tiles<Matrix>(columns)) quickscorer_.pack(this->tree_, columns);
    }
    void find(const TileColumns& columns, const Block& block, InterruptPoller& poller,
              std::int32_t* leaves) const override {
        if (quickscorer_.empty()) {
            find_leaves<HasMissing, HasCategories>(this->tree_, this->matrix_, block.rows, block.n, poller, leaves);
            return;
        }
        poller.count(static_cast<std::int64_t>(block.n) * 4);
        quickscorer_.find(block, columns.size(), leaves);
    }

private:
    Quickscorer<HasMissing> quickscorer_;
    static constexpr bool kIsDense = std::is_same_v<Matrix, DenseMatrix<typename Matrix::Value>>;

    bool can_use_quickscorer() const {
        return kIsDense && !HasCategories && Quickscorer<HasMissing>::fits(this->structure());
    }
};

template <bool HasMissing, bool HasCategories, class Matrix>
class BlockLoaderOf final : public BlockLoader {
public:
    BlockLoaderOf(const Matrix& matrix, std::size_t) : matrix_(matrix) {}
    void load(const TileColumns& columns, Block& block) const override {
        if (has_tiles<Matrix>(columns)) columns.load(matrix_, block);
    }
    std::size_t row_size() const override { return matrix_.row_size(); }

private:
    Matrix matrix_;
};

// The rows of a call, of any type. Makes finders for trees with or without splits on categories.
struct RowMatrix {
    std::variant<DenseMatrix<float>, DenseMatrix<double>, SparseMatrix<float>, SparseMatrix<double>> matrix;
    bool has_missing;
    std::size_t n_rows, n_features;

    std::unique_ptr<LeafFinder> make_leaf_finder(bool has_categories) const {
        return make<LeafFinder, LeafFinderOf>(has_categories);
    }
    std::unique_ptr<SwappedLeafFinder> make_swapped_leaf_finder(bool has_categories) const {
        return make<SwappedLeafFinder, SwappedLeafFinderOf>(has_categories);
    }
    std::unique_ptr<Projector> make_sobol_projector(bool has_categories) const {
        return make<Projector, SobolProjectorOf>(has_categories);
    }
    std::unique_ptr<JointWalker> make_joint_walker(bool has_categories) const {
        return make<JointWalker, JointWalkerOf>(has_categories);
    }
    std::unique_ptr<SmallTreeFinder> make_small_tree_finder(bool has_categories) const {
        return make<SmallTreeFinder, SmallTreeFinderOf>(has_categories);
    }
    std::unique_ptr<BlockLoader> make_block_loader() const { return make<BlockLoader, BlockLoaderOf>(false); }

private:
    template <class Interface, template <bool, bool, class> class Of>
    std::unique_ptr<Interface> make(bool has_categories) const {
        return std::visit(
            [&](const auto& typed) -> std::unique_ptr<Interface> {
                using Matrix = std::decay_t<decltype(typed)>;
                if (has_missing && has_categories) return std::make_unique<Of<true, true, Matrix>>(typed, n_features);
                if (has_missing) return std::make_unique<Of<true, false, Matrix>>(typed, n_features);
                if (has_categories) return std::make_unique<Of<false, true, Matrix>>(typed, n_features);
                return std::make_unique<Of<false, false, Matrix>>(typed, n_features);
            },
            matrix);
    }
};

}  // namespace truewood
