// Sums over rows of products of their influence. No Python here.
//
// Rows are summed in order within blocks, and the sums of blocks are added in order. The numpy engine does the same, so
// both give the same bits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "simd_dispatch.hpp"
#include "threads.hpp"

namespace truewood {

// The influence of some rows, and their weights in bags; RowProducts of engine.py describes the results.
struct ProductsCall {
    std::size_t n_rows, n_columns;
    const double* eval_influence;    // n_columns a row
    const double* inbag_influence;   // null: no row was in bag
    const std::uint8_t* is_scoring;  // rows that count
    double total_weight;             // what influence is divided by
    const double* mean;              // what is then subtracted, by column
    std::size_t n_bags;
    const float* bags;  // weights of rows in bags, n_rows a bag
    // Results.
    double *eval_eval, *eval_inbag, *inbag_inbag, *eval_sum;  // n_columns each
    double* totals;  // eval_eval and eval_inbag of the sums over columns, and the number of rows in any bag
    double *K, *L;   // n_columns a bag
    double* d_d;     // a bag
};

constexpr std::size_t kRowBlock = 1024;
// Rows of a block that are worked on together, so that they stay in the cache.
constexpr std::size_t kRowsAtHand = 128;

// sums += more * row, where `more` is the weight of a row in the bag minus its mean over bags.
TRUEWOOD_SIMD_DISPATCH
static void add_weighted_rows(const double* more, const double* rows, std::size_t n_rows, std::size_t width,
                              double* sums) {
    for (std::size_t k = 0; k < n_rows; ++k) {
        const double *row = rows + k * width, by = more[k];
        for (std::size_t j = 0; j < width; ++j) sums[j] += by * row[j];
    }
}

// Sums of one block.
class BlockProducts {
public:
    explicit BlockProducts(const ProductsCall& call)
        : call_(call), n_(call.n_columns), width_(call.inbag_influence ? 2 * call.n_columns : call.n_columns) {}

    void sum(std::size_t first, std::size_t last) {
        sums_.assign(size(), 0.0);
        for (; first < last; first += kRowsAtHand) add_rows(first, std::min(first + kRowsAtHand, last));
    }

    std::vector<double>& sums() { return sums_; }
    std::size_t size() const { return n_own() + call_.n_bags * per_bag(); }

    // Writes the sums of all blocks to the results.
    void put(const std::vector<double>& total) const {
        for (std::size_t j = 0; j < n_; ++j) {
            call_.eval_eval[j] = total[j];
            call_.eval_inbag[j] = total[n_ + j];
            call_.inbag_inbag[j] = total[2 * n_ + j];
            call_.eval_sum[j] = total[3 * n_ + j];
        }
        for (std::size_t k = 0; k < 3; ++k) call_.totals[k] = total[4 * n_ + k];
        for (std::size_t t = 0; t < call_.n_bags; ++t) {
            const double* of_bag = total.data() + n_own() + t * per_bag();
            for (std::size_t j = 0; j < n_; ++j) {
                call_.K[t * n_ + j] = of_bag[j];
                call_.L[t * n_ + j] = of_bag[n_ + j];
            }
            call_.d_d[t] = of_bag[width_];
        }
    }

private:
    const ProductsCall& call_;
    std::size_t n_, width_;
    std::vector<double> sums_;  // products by column, totals, and for each bag K, L and d_d
    std::vector<double> row_, by_rate_, bag_mean_, rate_, more_;
    std::vector<std::size_t> number_;

    std::size_t n_own() const { return 4 * n_ + 3; }
    std::size_t per_bag() const { return width_ + 1; }

    void add_rows(std::size_t first, std::size_t last) {
        bag_mean_.assign(last - first, 0.0);
        for (std::size_t t = 0; t < call_.n_bags; ++t) {
            for (std::size_t i = first; i < last; ++i) bag_mean_[i - first] += call_.bags[t * call_.n_rows + i];
        }
        for (double& sum : bag_mean_) sum /= static_cast<double>(std::max<std::size_t>(call_.n_bags, 1));
        number_.clear();
        rate_.clear();
        by_rate_.clear();
        for (std::size_t i = first; i < last; ++i) {
            if (call_.is_scoring[i]) add_row(i, bag_mean_[i - first]);
        }
        more_.resize(number_.size());
        for (std::size_t t = 0; t < call_.n_bags; ++t) {
            double* sums = sums_.data() + n_own() + t * per_bag();
            const float* bag = call_.bags + t * call_.n_rows;
            for (std::size_t k = 0; k < number_.size(); ++k) {
                more_[k] = static_cast<double>(bag[number_[k]]) - bag_mean_[number_[k] - first];
                const double d = more_[k] * rate_[k];
                sums[width_] += d * d;
            }
            add_weighted_rows(more_.data(), by_rate_.data(), number_.size(), width_, sums);
        }
    }

    void add_row(std::size_t i, double bag_mean) {
        double eval_total = 0.0, inbag_total = 0.0;
        row_.resize(width_);
        for (std::size_t j = 0; j < n_; ++j) {
            row_[j] = call_.eval_influence[i * n_ + j] / call_.total_weight - call_.mean[j];
            sums_[j] += row_[j] * row_[j];
            sums_[3 * n_ + j] += row_[j];
            eval_total += row_[j];
        }
        for (std::size_t j = n_; j < width_; ++j) {
            row_[j] = call_.inbag_influence[i * n_ + j - n_] / call_.total_weight - call_.mean[j - n_];
            sums_[j] += row_[j - n_] * row_[j];
            sums_[n_ + j] += row_[j] * row_[j];
            inbag_total += row_[j];
        }
        sums_[4 * n_] += eval_total * eval_total;
        sums_[4 * n_ + 1] += eval_total * inbag_total;
        sums_[4 * n_ + 2] += bag_mean > 0 ? 1.0 : 0.0;
        const double rate = bag_mean > 0 ? 1.0 / bag_mean : 0.0;
        number_.push_back(i);
        rate_.push_back(rate);
        for (const double number : row_) by_rate_.push_back(rate * number);
    }
};

inline void sum_row_products(const ProductsCall& call, ThreadTeam& team) {
    std::vector<BlockProducts> workers(team.n_threads(), BlockProducts(call));
    OrderedSum total(workers[0].size(), team.n_threads());
    team.run((call.n_rows + kRowBlock - 1) / kRowBlock, [&](std::size_t w, std::size_t block, InterruptPoller& poller) {
        const std::size_t first = block * kRowBlock, last = std::min(first + kRowBlock, call.n_rows);
        poller.count(static_cast<std::int64_t>((last - first) * (call.n_columns + call.n_bags * 4)));
        workers[w].sum(first, last);
        total.add(block, workers[w].sums(), poller);
    });
    workers[0].put(total.total());
}

}  // namespace truewood
