// Finders of leaves for all types of rows. No Python here.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "matrix.hpp"
#include "row_matrix.hpp"
#include "threads.hpp"
#include "tile.hpp"
#include "tile_walk.hpp"
#include "tree.hpp"
#include "walk.hpp"

namespace truewood {

namespace {

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
class SmallTreeFinderOf final : public HolderOf<SmallTreeFinder, Matrix> {
public:
    using HolderOf<SmallTreeFinder, Matrix>::HolderOf;
    void pack(const TreeArrays& tree) override {
        HolderOf<SmallTreeFinder, Matrix>::pack(tree);
        number_leaves();
    }
    void add_splits(TileColumns& columns) const override {
        if (!can_use_tiles()) return;
        const Structure& tree = this->structure();
        for (std::int32_t place = 0; place < static_cast<std::int32_t>(tree.n_nodes()); ++place) {
            if (tree.left[place] < 0) continue;
            columns.add(tree.feature[place], static_cast<double>(this->tree_.threshold(place)),
                        HasMissing && !this->tree_.sends_missing_left(place));
        }
    }
    void pack_splits(const TileColumns& columns) override {
        tile_tree_.clear();
        if (can_use_tiles() && columns.code_size()) {
            tile_tree_.template pack<HasMissing>(this->tree_, first_leaf_, columns);
        }
    }
    void find(const Block& block, InterruptPoller& poller, std::uint16_t* leaves) const override {
        if (tile_tree_.is_packed()) {
            poller.count(static_cast<std::int64_t>(block.n));
            tile_tree_.find(block, leaves);
            return;
        }
        std::int32_t places[kTile];
        find_leaves<HasMissing, HasCategories>(this->tree_, this->matrix_, block.rows, block.n, poller, places);
        for (std::size_t i = 0; i < block.n; ++i) leaves[i] = first_leaf_[static_cast<std::size_t>(places[i])];
    }
    const std::vector<std::int32_t>& leaf_place() const override { return leaf_place_; }

private:
    TileTree tile_tree_;
    std::vector<std::uint16_t> first_leaf_;  // number of the first leaf below each place
    std::vector<std::int32_t> leaf_place_;

    bool can_use_tiles() const {
        return std::is_same_v<Matrix, DenseMatrix<typename Matrix::Value>> && !HasCategories &&
               TileTree::fits(this->structure());
    }
    void number_leaves() {
        const std::vector<std::int32_t>& left = this->structure().left;
        std::vector<std::uint16_t> n_leaves(left.size(), 1);
        for (std::size_t p = left.size(); p-- > 0;) {
            const auto l = static_cast<std::size_t>(left[p]);
            if (left[p] >= 0) n_leaves[p] = static_cast<std::uint16_t>(n_leaves[l] + n_leaves[l + 1]);
        }
        first_leaf_.assign(left.size(), 0);
        leaf_place_.resize(n_leaves[0]);
        for (std::size_t p = 0; p < left.size(); ++p) {
            const auto l = static_cast<std::size_t>(left[p]);
            if (left[p] < 0) {
                leaf_place_[first_leaf_[p]] = static_cast<std::int32_t>(p);
                continue;
            }
            first_leaf_[l] = first_leaf_[p];
            first_leaf_[l + 1] = static_cast<std::uint16_t>(first_leaf_[p] + n_leaves[l]);
        }
    }
};

template <bool HasMissing, bool HasCategories, class Matrix>
class BlockLoaderOf final : public BlockLoader {
public:
    BlockLoaderOf(const Matrix& matrix, std::size_t) : matrix_(matrix) {}
    void load(const TileColumns& columns, Block& block) const override { columns.load(matrix_, block); }

private:
    Matrix matrix_;
};

}  // namespace

std::unique_ptr<LeafFinder> RowMatrix::make_leaf_finder(bool has_categories) const {
    return make<LeafFinder, LeafFinderOf>(has_categories);
}

std::unique_ptr<SwappedLeafFinder> RowMatrix::make_swapped_leaf_finder(bool has_categories) const {
    return make<SwappedLeafFinder, SwappedLeafFinderOf>(has_categories);
}

std::unique_ptr<SmallTreeFinder> RowMatrix::make_small_tree_finder(bool has_categories) const {
    return make<SmallTreeFinder, SmallTreeFinderOf>(has_categories);
}

std::unique_ptr<BlockLoader> RowMatrix::make_block_loader() const { return make<BlockLoader, BlockLoaderOf>(false); }

}  // namespace truewood
