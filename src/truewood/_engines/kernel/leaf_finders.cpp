// Finders of leaves for all types of rows. No Python here.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "matrix.hpp"
#include "quickscorer.hpp"
#include "row_matrix.hpp"
#include "threads.hpp"
#include "tile.hpp"
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
