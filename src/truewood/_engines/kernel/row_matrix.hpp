// The rows of a call, of any type, and what sends them down trees. No Python here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <variant>
#include <vector>

#include "joint_effects.hpp"
#include "matrix.hpp"
#include "sobol_projection.hpp"
#include "threads.hpp"
#include "tile.hpp"
#include "tree.hpp"

namespace truewood {

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

// Finds the leaves of a block of rows in a small tree, numbered from left to right. Many trees share the columns of a
// block: all trees first add their splits, and then each tree packs its own.
class SmallTreeFinder : public TreeHolder {
public:
    virtual void add_splits(TileColumns& columns) const = 0;
    virtual void pack_splits(const TileColumns& columns) = 0;
    // `leaves` has room for kTile.
    virtual void find(const Block& block, InterruptPoller& poller, std::uint16_t* leaves) const = 0;
    // The place of each leaf.
    virtual const std::vector<std::int32_t>& leaf_place() const = 0;
};

// Copies the rows of a block for small trees.
class BlockLoader {
public:
    virtual ~BlockLoader() = default;
    virtual void load(const TileColumns& columns, Block& block) const = 0;
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

// The rows of a call, of any type. Makes finders for trees with or without splits on categories.
struct RowMatrix {
    std::variant<DenseMatrix<float>, DenseMatrix<double>, SparseMatrix<float>, SparseMatrix<double>> matrix;
    bool has_missing;
    std::size_t n_rows, n_features;

    std::unique_ptr<LeafFinder> make_leaf_finder(bool has_categories) const;
    std::unique_ptr<SwappedLeafFinder> make_swapped_leaf_finder(bool has_categories) const;
    std::unique_ptr<Projector> make_sobol_projector(bool has_categories) const;
    std::unique_ptr<JointWalker> make_joint_walker(bool has_categories) const;
    std::unique_ptr<SmallTreeFinder> make_small_tree_finder(bool has_categories) const;
    std::unique_ptr<BlockLoader> make_block_loader() const;

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
