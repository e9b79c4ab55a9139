// Sums over rows of products of their influence. No Python here.
//
// Rows are summed in order within blocks, and blocks are added in order, as the numpy engine does, so that both agree
// bit for bit.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "simd_dispatch.hpp"
#include "threads.hpp"

namespace truewood {

// The influence of rows, and their weights in bags.
struct InfluenceRowsView {
    std::size_t n_rows = 0, n_columns = 0, n_bags = 0;
    const double* eval_influence = nullptr;   // (row, column)
    const double* inbag_influence = nullptr;  // (row, column); see has_inbag()
    const std::uint8_t* is_scoring =
        nullptr;                   // whether a row counts; not bool, as numpy allows bytes other than 0 and 1
    double total_weight = 1.0;     // divides the influence
    const double* mean = nullptr;  // then subtracted, by column
    const float* bags = nullptr;   // weights of rows in bags: (bag, row)

    bool has_inbag() const { return inbag_influence != nullptr; }
};

// Receives the sums that RowProducts in records.py describes.
struct RowProductsOutput {
    double* products;  // eval_eval, eval_inbag, inbag_inbag and eval_sum, n_columns each
    double* totals;    // total_eval_eval, total_eval_inbag and n_inbag
    double *K, *L;     // (bag, column)
    double* d_d;       // (bag,)
};

constexpr std::size_t kRowBlock = 1024;
// Rows of a block that are processed together, so that they stay in the cache.
constexpr std::size_t kRowsAtHand = 128;
constexpr std::size_t kBagsAtHand = 4;

// sums += more * row for `Columns` columns of each row, where `more` is a row's weight in the bag minus its mean over
// bags. The sums stay in registers.
#if defined(__GNUC__)
#define TRUEWOOD_ADD_COLUMNS(NAME, TARGET, BYTES)                                                                   \
    template <std::size_t Columns>                                                                                  \
    TARGET void NAME(const double* more, const double* rows, std::size_t n_rows, std::size_t width, double* sums) { \
        typedef double Numbers __attribute__((vector_size(BYTES)));                                                 \
        constexpr std::size_t kNumbers = BYTES / sizeof(double);                                                    \
        Numbers sum[Columns / kNumbers];                                                                            \
        std::memcpy(sum, sums, sizeof(sum));                                                                        \
        for (std::size_t k = 0; k < n_rows; ++k, rows += width) {                                                   \
            _Pragma("GCC unroll 16") for (std::size_t j = 0; j < Columns / kNumbers; ++j) {                         \
                Numbers row;                                                                                        \
                std::memcpy(&row, rows + j * kNumbers, BYTES);                                                      \
                sum[j] = sum[j] + row * more[k];                                                                    \
            }                                                                                                       \
        }                                                                                                           \
        std::memcpy(sums, sum, sizeof(sum));                                                                        \
    }
TRUEWOOD_ADD_COLUMNS(add_columns_16, , 16)
#if defined(__x86_64__)
TRUEWOOD_ADD_COLUMNS(add_columns_avx2, __attribute__((target("avx2"))), 32)
TRUEWOOD_ADD_COLUMNS(add_columns_avx512, __attribute__((target("avx512f"))), 64)
#endif
#undef TRUEWOOD_ADD_COLUMNS
#endif

template <std::size_t Columns>
void add_columns(const double* more, const double* rows, std::size_t n_rows, std::size_t width, double* sums) {
#if defined(__GNUC__) && defined(__x86_64__)
    if constexpr (Columns >= 8) {
        if (has_avx512()) return add_columns_avx512<Columns>(more, rows, n_rows, width, sums);
    }
    if constexpr (Columns >= 4) {
        if (has_avx2()) return add_columns_avx2<Columns>(more, rows, n_rows, width, sums);
    }
#endif
#if defined(__GNUC__)
    if constexpr (Columns >= 2) return add_columns_16<Columns>(more, rows, n_rows, width, sums);
#endif
    for (std::size_t k = 0; k < n_rows; ++k, rows += width) {
        for (std::size_t j = 0; j < Columns; ++j) sums[j] += more[k] * rows[j];
    }
}

inline void add_weighted_rows(const double* more, const double* rows, std::size_t n_rows, std::size_t width,
                              double* sums) {
    std::size_t j = 0;
    for (; j + 32 <= width; j += 32) add_columns<32>(more, rows + j, n_rows, width, sums + j);
    for (; j + 16 <= width; j += 16) add_columns<16>(more, rows + j, n_rows, width, sums + j);
    for (; j + 8 <= width; j += 8) add_columns<8>(more, rows + j, n_rows, width, sums + j);
    for (; j + 4 <= width; j += 4) add_columns<4>(more, rows + j, n_rows, width, sums + j);
    for (; j < width; ++j) add_columns<1>(more, rows + j, n_rows, width, sums + j);
}

// A row's influence on each column, divided and centered.
TRUEWOOD_SIMD_DISPATCH
static void center(const double* influence, double total_weight, const double* mean, std::size_t n, double* row) {
    for (std::size_t j = 0; j < n; ++j) row[j] = influence[j] / total_weight - mean[j];
}

// sums += one * other, column by column.
TRUEWOOD_SIMD_DISPATCH
static void add_products(const double* one, const double* other, std::size_t n, double* sums) {
    for (std::size_t j = 0; j < n; ++j) sums[j] += one[j] * other[j];
}

// Sums over one block of rows.
class BlockProducts {
public:
    explicit BlockProducts(const InfluenceRowsView& rows)
        : rows_(rows),
          n_(rows.n_columns),
          width_(rows.has_inbag() ? 2 * rows.n_columns : rows.n_columns),
          row_(2 * rows.n_columns, 0.0) {}

    void sum(std::size_t first, std::size_t last) {
        sums_.assign(size(), 0.0);
        for (; first < last; first += kRowsAtHand) add_rows(first, std::min(first + kRowsAtHand, last));
    }

    std::vector<double>& sums() { return sums_; }
    std::size_t size() const { return n_own() + rows_.n_bags * per_bag(); }

    // Writes the sums over all blocks.
    void put(const std::vector<double>& total, const RowProductsOutput& out) const {
        std::copy_n(total.data(), 4 * n_, out.products);
        std::copy_n(total.data() + 4 * n_, 3, out.totals);
        for (std::size_t t = 0; t < rows_.n_bags; ++t) {
            const double* of_bag = total.data() + n_own() + t * per_bag();
            std::copy_n(of_bag, n_, out.K + t * n_);
            std::copy_n(of_bag + n_, n_, out.L + t * n_);
            out.d_d[t] = of_bag[width_];
        }
    }

private:
    const InfluenceRowsView& rows_;
    std::size_t n_, width_;
    std::vector<double> sums_;  // products by column, totals, and K, L and d_d of each bag
    std::vector<double> row_;   // of a row in both roles; zero if no row is in bag
    std::vector<double> by_rate_, bag_mean_, rate_, more_;
    std::vector<std::size_t> number_;

    std::size_t n_own() const { return 4 * n_ + 3; }
    std::size_t per_bag() const { return width_ + 1; }

    void add_rows(std::size_t first, std::size_t last) {
        bag_mean_.assign(last - first, 0.0);
        for (std::size_t t = 0; t < rows_.n_bags; ++t) {
            for (std::size_t i = first; i < last; ++i) bag_mean_[i - first] += rows_.bags[t * rows_.n_rows + i];
        }
        for (double& sum : bag_mean_) sum /= static_cast<double>(std::max<std::size_t>(rows_.n_bags, 1));
        number_.clear();
        rate_.clear();
        by_rate_.resize(kRowsAtHand * width_);
        for (std::size_t i = first; i < last; ++i) {
            if (rows_.is_scoring[i]) add_row(i, bag_mean_[i - first]);
        }
        if (number_.empty()) return;
        std::size_t t = 0;
        for (; t + kBagsAtHand <= rows_.n_bags; t += kBagsAtHand) add_bags<kBagsAtHand>(t, first);
        for (; t < rows_.n_bags; ++t) add_bags<1>(t, first);
    }

    // Adds the rows at hand, from row `first`, to the sums of several bags. The sum of squares of each bag depends on
    // the previous row, and interleaving bags hides the latency.
    template <std::size_t Bags>
    void add_bags(std::size_t t, std::size_t first) {
        const std::size_t n = number_.size();
        more_.resize(Bags * n);
        double d_d[Bags] = {};
        for (std::size_t b = 0; b < Bags; ++b) d_d[b] = sums_of_bag(t + b)[width_];
        for (std::size_t k = 0; k < n; ++k) {
            const float* bag = rows_.bags + t * rows_.n_rows + number_[k];
            for (std::size_t b = 0; b < Bags; ++b, bag += rows_.n_rows) {
                const double more = static_cast<double>(*bag) - bag_mean_[number_[k] - first], d = more * rate_[k];
                more_[b * n + k] = more;
                d_d[b] += d * d;
            }
        }
        for (std::size_t b = 0; b < Bags; ++b) {
            sums_of_bag(t + b)[width_] = d_d[b];
            add_weighted_rows(more_.data() + b * n, by_rate_.data(), n, width_, sums_of_bag(t + b));
        }
    }

    double* sums_of_bag(std::size_t t) { return sums_.data() + n_own() + t * per_bag(); }

    void add_row(std::size_t i, double bag_mean) {
        double eval_total = 0.0, inbag_total = 0.0;
        double *own = row_.data(), *inbag = own + n_, *sums = sums_.data();
        center(rows_.eval_influence + i * n_, rows_.total_weight, rows_.mean, n_, own);
        add_products(own, own, n_, sums);
        if (rows_.has_inbag()) {
            center(rows_.inbag_influence + i * n_, rows_.total_weight, rows_.mean, n_, inbag);
            add_products(own, inbag, n_, sums + n_);
            add_products(inbag, inbag, n_, sums + 2 * n_);
        }
        for (std::size_t j = 0; j < n_; ++j) {
            sums[3 * n_ + j] += own[j];
            eval_total += own[j];
            inbag_total += inbag[j];
        }
        sums_[4 * n_] += eval_total * eval_total;
        sums_[4 * n_ + 1] += eval_total * inbag_total;
        sums_[4 * n_ + 2] += bag_mean > 0 ? 1.0 : 0.0;
        const double rate = bag_mean > 0 ? 1.0 / bag_mean : 0.0;
        double* by_rate = by_rate_.data() + number_.size() * width_;
        for (std::size_t j = 0; j < width_; ++j) by_rate[j] = rate * own[j];
        number_.push_back(i);
        rate_.push_back(rate);
    }
};

inline void sum_row_products(const InfluenceRowsView& rows, const RowProductsOutput& out, ThreadTeam& team) {
    std::vector<BlockProducts> workers(team.n_threads(), BlockProducts(rows));
    OrderedSum total(workers[0].size(), team.n_threads());
    team.run((rows.n_rows + kRowBlock - 1) / kRowBlock, [&](std::size_t w, std::size_t block, InterruptPoller& poller) {
        const std::size_t first = block * kRowBlock, last = std::min(first + kRowBlock, rows.n_rows);
        poller.count(static_cast<std::int64_t>((last - first) * (rows.n_columns + rows.n_bags * 4)));
        workers[w].sum(first, last);
        total.add(block, workers[w].sums(), poller);
    });
    workers[0].put(total.total(), out);
}

}  // namespace truewood
