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

// Maximum number of rows in a tile, which is stored column by column.
constexpr std::size_t kTile = 512;

// A column of a tile as codes: the number of thresholds below each value, minus an offset because codes are signed. A
// value is above a threshold if its code is above that of the threshold.
class TileColumn {
public:
    // Missing values are below all thresholds, or above all.
    TileColumn(std::int32_t feature, bool missing_above) : feature_(feature), missing_above_(missing_above) {}

    void add(double threshold) { cuts_.push_back(threshold); }
    // Prepares searches, which start with a table of equally wide cells, so that only the thresholds of a cell are
    // left.
    void sort() {
        std::sort(cuts_.begin(), cuts_.end());
        cuts_.erase(std::unique(cuts_.begin(), cuts_.end()), cuts_.end());
        n_cuts_ = cuts_.size();
        const double n_cells = static_cast<double>(2 * n_cuts_), scale = n_cells / (cuts_.back() - cuts_.front());
        last_cell_ = n_cells - 1;
        low_ = cuts_.front();
        scale_ = std::isfinite(scale) ? scale : 0.0;
        first_.assign(2 * n_cuts_ + 1, 0);
        for (const double cut : cuts_) ++first_[static_cast<std::size_t>(find_cell(cut)) + 1];
        n_in_cell_ = *std::max_element(first_.begin(), first_.end());
        for (std::size_t k = 1; k < first_.size(); ++k) first_[k] += first_[k - 1];
        cuts_.insert(cuts_.end(), n_in_cell_, std::numeric_limits<double>::infinity());
    }

    std::int32_t feature() const { return feature_; }
    std::size_t n_cuts() const { return n_cuts_; }
    template <class Code>
    Code code(double threshold) const {
        return shift<Code>(std::lower_bound(cuts_.begin(), cuts_.end(), threshold) - cuts_.begin());
    }

    // Finds the codes of n values. Searches for all of them at once, so that steps do not depend on each other.
    template <class Code>
    void find_codes(const double* x, std::size_t n, Code* codes) const {
        std::uint32_t place[kTile];
        for (std::size_t i = 0; i < n; ++i) place[i] = static_cast<std::uint32_t>(find_cell(x[i]));
        for (std::size_t i = 0; i < n; ++i) place[i] = first_[place[i]];
        for (std::size_t left = n_in_cell_; left > 0;) {
            const auto half = static_cast<std::uint32_t>(left - left / 2);
            const double* middle = cuts_.data() + half - 1;
            for (std::size_t i = 0; i < n; ++i) {
                place[i] += half * static_cast<std::uint32_t>(middle[place[i]] < x[i]);  // no branch to predict
            }
            left -= half;
        }
        for (std::size_t i = 0; i < n; ++i) codes[i] = shift<Code>(place[i]);
        if (!missing_above_) return;
        for (std::size_t i = 0; i < n; ++i) codes[i] = std::isnan(x[i]) ? shift<Code>(n_cuts_) : codes[i];
    }

private:
    std::int32_t feature_;
    bool missing_above_;
    std::vector<double> cuts_;  // thresholds, then n_in_cell_ times infinity
    std::size_t n_cuts_ = 0, n_in_cell_ = 0;
    std::vector<std::uint32_t> first_;  // number of thresholds in earlier cells
    double low_ = 0.0, scale_ = 0.0, last_cell_ = 0.0;

    // Never decreases as x grows, so that all thresholds in earlier cells are below x. NaN is in the first cell.
    std::int32_t find_cell(double x) const {
        const double cell = (x - low_) * scale_, not_below = cell > 0 ? cell : 0.0;
        return static_cast<std::int32_t>(not_below < last_cell_ ? not_below : last_cell_);
    }
    template <class Code, class Number>
    static Code shift(Number number) {
        return static_cast<Code>(static_cast<std::int32_t>(number) + std::numeric_limits<Code>::min());
    }
};

// Rows, and their codes: column by column, kTile each.
struct Block {
    Range rows;
    std::size_t n;  // at most kTile
    std::vector<std::int8_t> bytes;
    std::vector<std::int16_t> words;

    std::vector<std::int8_t>& codes(std::int8_t) { return bytes; }
    std::vector<std::int16_t>& codes(std::int16_t) { return words; }
    const std::int8_t* codes(std::int8_t) const { return bytes.data(); }
    const std::int16_t* codes(std::int16_t) const { return words.data(); }
};

// The columns that trees split on. Where some splits send missing values left and others right, there are two columns.
class TileColumns {
public:
    void add(std::int32_t feature, double threshold, bool missing_right) {
        const std::size_t key = 2 * static_cast<std::size_t>(feature) + missing_right;
        if (key >= number_.size()) number_.resize(key + 1, -1);
        if (number_[key] < 0) {
            number_[key] = static_cast<std::int32_t>(columns_.size());
            columns_.emplace_back(feature, missing_right);
        }
        columns_[static_cast<std::size_t>(number_[key])].add(threshold);
        ++n_splits_;
    }
    void sort(std::size_t column) { columns_[column].sort(); }

    std::size_t size() const { return columns_.size(); }
    const TileColumn& operator[](std::size_t column) const { return columns_[column]; }
    std::size_t find(std::int32_t feature, bool missing_right) const {
        return static_cast<std::size_t>(number_[2 * static_cast<std::size_t>(feature) + missing_right]);
    }
    // Bytes per code; 0 if there are too few splits to make tiles worthwhile, or too many thresholds.
    std::size_t code_size() const {
        std::size_t most = 0;
        for (const TileColumn& column : columns_) most = std::max(most, column.n_cuts());
        if (n_splits_ < 4 * size()) return 0;
        return most < (1 << 8) ? 1 : most < (1 << 16) ? 2 : 0;
    }

    // Copies the rows of a block.
    template <class Matrix>
    void load(const Matrix& matrix, Block& block) const {
        const std::size_t n_bytes = code_size();
        if (n_bytes == 1) load<std::int8_t>(matrix, block);
        else if (n_bytes == 2) load<std::int16_t>(matrix, block);
    }

private:
    // Rows to copy at once, which should fit into the cache.
    static constexpr std::size_t kRows = 64;
    static_assert(kTile % kRows == 0);

    std::vector<std::int32_t> number_;  // of each (feature, direction of missing values); -1 if no tree splits on it
    std::vector<TileColumn> columns_;
    std::size_t n_splits_ = 0;

    template <class Code, class Matrix>
    void load(const Matrix& matrix, Block& block) const {
        std::vector<Code>& codes = block.codes(Code{});
        codes.resize(size() * kTile);
        double x[kRows];
        for (std::size_t start = 0; start < block.n; start += kRows) {
            const std::size_t n_here = std::min(kRows, block.n - start);
            for (std::size_t c = 0; c < size(); ++c) {
                const std::int32_t feature = columns_[c].feature();
                for (std::size_t i = 0; i < n_here; ++i) {
                    x[i] = static_cast<double>(matrix.row(block.rows[start + i])[feature]);
                }
                columns_[c].find_codes(x, n_here, codes.data() + c * kTile + start);
            }
        }
    }
};

}  // namespace truewood
