// Copies of blocks of rows for small trees: only columns that trees split on, and only the order of values relative to
// thresholds. No Python here.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace truewood {

// Consecutive rows.
struct Range {
    std::int64_t first;
    std::int64_t operator[](std::size_t k) const { return first + static_cast<std::int64_t>(k); }
};

// Rows per tile. A tile is stored column by column, and each column is four vectors of 32 bytes.
constexpr std::size_t kTile = 32;

// Rows, and their values in tiles.
struct Block {
    Range rows;
    std::size_t n;
    std::vector<float> tiles;  // empty if tiles are not used
};

// The columns that trees split on. Floats are copied. A double is replaced by the number of thresholds below it, which
// fits into a float and compares with thresholds in the same way.
class TileColumns {
public:
    void add(std::int32_t feature, double threshold) {
        if (static_cast<std::size_t>(feature) >= column_.size())
            column_.resize(static_cast<std::size_t>(feature) + 1, -1);
        std::int32_t& column = column_[static_cast<std::size_t>(feature)];
        if (column < 0) {
            column = static_cast<std::int32_t>(features_.size());
            features_.push_back(feature);
            cuts_.emplace_back();
        }
        cuts_[static_cast<std::size_t>(column)].push_back(threshold);
        ++n_splits_;
    }
    void sort(std::size_t column) {
        std::vector<double>& cuts = cuts_[column];
        std::sort(cuts.begin(), cuts.end());
        cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    }

    std::size_t size() const { return features_.size(); }
    // Whether there are enough splits to make the search for every double worthwhile.
    bool are_worth_a_search() const { return n_splits_ >= 4 * features_.size() && n_splits_ < (std::size_t{1} << 24); }
    std::size_t column(std::int32_t feature) const {
        return static_cast<std::size_t>(column_[static_cast<std::size_t>(feature)]);
    }
    // The number that replaces a threshold.
    float code(std::int32_t, float threshold) const { return threshold; }
    float code(std::int32_t feature, double threshold) const {
        const std::vector<double>& cuts = cuts_[column(feature)];
        return static_cast<float>(std::lower_bound(cuts.begin(), cuts.end(), threshold) - cuts.begin());
    }

    // Copies the rows of a block.
    template <class Matrix>
    void load(const Matrix& matrix, Block& block) const {
        using T = typename Matrix::Value;
        block.tiles.resize((block.n + kTile - 1) / kTile * kTile * size());
        float* into = block.tiles.data();
        for (std::size_t start = 0; start < block.n; start += kTile) {
            const std::size_t n_here = std::min(kTile, block.n - start);
            for (std::size_t c = 0; c < size(); ++c, into += kTile) {
                T x[kTile] = {};
                for (std::size_t i = 0; i < n_here; ++i) x[i] = matrix.row(block.rows[start + i])[features_[c]];
                put(cuts_[c], x, into);
            }
        }
    }

private:
    std::vector<std::int32_t> column_;    // column of each feature; -1 if no tree splits on it
    std::vector<std::int32_t> features_;  // feature of each column
    std::vector<std::vector<double>> cuts_;
    std::size_t n_splits_ = 0;

    static void put(const std::vector<double>&, const float* x, float* into) { std::copy(x, x + kTile, into); }
    // Searches for all values of a tile at once, so that steps do not depend on each other.
    static void put(const std::vector<double>& cuts, const double* x, float* into) {
        std::uint32_t place[kTile] = {};
        for (std::size_t n = cuts.size(); n > 0;) {
            const auto half = static_cast<std::uint32_t>(n - n / 2);
            const double* middle = cuts.data() + half - 1;
            for (std::size_t i = 0; i < kTile; ++i) {
                place[i] += half * static_cast<std::uint32_t>(middle[place[i]] < x[i]);  // no branch to predict
            }
            n -= half;
        }
        for (std::size_t i = 0; i < kTile; ++i) {
            into[i] = std::isnan(x[i]) ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(place[i]);
        }
    }
};

}  // namespace truewood
