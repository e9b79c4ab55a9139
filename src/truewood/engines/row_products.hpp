// Sums over rows of products of what they contribute. No Python here.
//
// Rows are worked through in blocks; within a block sums are taken in the order of the rows, and the sums of blocks are
// added in their order. The numpy engine does the same, so both give the same bits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "threads.hpp"
#include "wide.hpp"

namespace truewood {

// What some rows contribute, and their weights in bags; see engines/row_products.py.
struct ProductsCall {
    std::size_t n_rows, n_columns;
    const double* phi;       // n_columns a row
    const double* psi;       // null: no row grew a tree
    const bool* is_scoring;  // rows that count
    double total_weight;     // what contributions are divided by
    const double* mean;      // what they are then less, a column
    std::size_t n_bags;
    const float* bags;  // weights of rows in bags, n_rows a bag
    // Results.
    double *phi_phi, *phi_psi, *psi_psi;  // n_columns each
    double* totals;  // phi_phi and phi_psi of the sums over columns, and the number of rows in any bag
    double *K, *L;   // n_columns a bag
    double* d_d;     // a bag
};

constexpr std::size_t kRowBlock = 128;

// For rows with more or less weight in a bag than on average: sums += more * row.
TRUEWOOD_WIDE
static void project(const double* more, const double* rows, std::size_t n_rows, std::size_t width, double* sums) {
    for (std::size_t k = 0; k < n_rows; ++k) {
        const double *row = rows + k * width, by = more[k];
        for (std::size_t j = 0; j < width; ++j) sums[j] += by * row[j];
    }
}

inline void sum_row_products(const ProductsCall& call, Crew& crew) {
    const std::size_t n = call.n_columns, width = call.psi ? 2 * n : n;
    const std::size_t n_blocks = (call.n_rows + kRowBlock - 1) / kRowBlock;
    // What a block adds: products by column, totals, and for each bag K, L and d_d.
    const std::size_t n_own = 3 * n + 3, per_bag = width + 1;
    struct Worker {
        std::vector<double> rows, by_rate, bag_mean, rate, more, sums;
        std::vector<std::size_t> number;
    };
    std::vector<Worker> workers(crew.n_threads());
    Crew::Turns turns;
    crew.run(n_blocks, [&](std::size_t w, std::size_t block, Pacer& pacer) {
        Worker& own = workers[w];
        own.rows.resize(kRowBlock * width);
        own.by_rate.resize(kRowBlock * width);
        own.rate.resize(kRowBlock);
        own.more.resize(kRowBlock);
        own.number.clear();
        own.sums.assign(n_own + call.n_bags * per_bag, 0.0);
        const std::size_t first = block * kRowBlock, last = std::min(first + kRowBlock, call.n_rows);
        pacer.count(static_cast<std::int64_t>((last - first) * (width + call.n_bags * 4)));
        own.bag_mean.assign(last - first, 0.0);
        for (std::size_t t = 0; t < call.n_bags; ++t) {
            for (std::size_t i = first; i < last; ++i) own.bag_mean[i - first] += call.bags[t * call.n_rows + i];
        }
        for (double& sum : own.bag_mean) sum /= static_cast<double>(std::max<std::size_t>(call.n_bags, 1));
        for (std::size_t i = first; i < last; ++i) {
            if (!call.is_scoring[i]) continue;
            const std::size_t k = own.number.size();
            own.number.push_back(i);
            double* row = own.rows.data() + k * width;
            double phi_total = 0.0, psi_total = 0.0;
            for (std::size_t j = 0; j < n; ++j) {
                row[j] = call.phi[i * n + j] / call.total_weight - call.mean[j];
                own.sums[j] += row[j] * row[j];
                phi_total += row[j];
            }
            if (call.psi) {
                for (std::size_t j = 0; j < n; ++j) {
                    row[n + j] = call.psi[i * n + j] / call.total_weight - call.mean[j];
                    own.sums[n + j] += row[j] * row[n + j];
                    own.sums[2 * n + j] += row[n + j] * row[n + j];
                    psi_total += row[n + j];
                }
            }
            own.sums[3 * n] += phi_total * phi_total;
            own.sums[3 * n + 1] += phi_total * psi_total;
            const double bag_mean = own.bag_mean[i - first];
            own.rate[k] = bag_mean > 0 ? 1.0 / bag_mean : 0.0;
            own.sums[3 * n + 2] += bag_mean > 0 ? 1.0 : 0.0;
            for (std::size_t j = 0; j < width; ++j) own.by_rate[k * width + j] = own.rate[k] * row[j];
        }
        for (std::size_t t = 0; t < call.n_bags; ++t) {
            double* sums = own.sums.data() + n_own + t * per_bag;
            const float* bag = call.bags + t * call.n_rows;
            for (std::size_t k = 0; k < own.number.size(); ++k) {
                const std::size_t i = own.number[k];
                own.more[k] = static_cast<double>(bag[i]) - own.bag_mean[i - first];
                const double d = own.more[k] * own.rate[k];
                sums[width] += d * d;
            }
            project(own.more.data(), own.by_rate.data(), own.number.size(), width, sums);
        }
        turns.take(block, pacer, [&] {
            for (std::size_t j = 0; j < n; ++j) {
                call.phi_phi[j] += own.sums[j];
                call.phi_psi[j] += own.sums[n + j];
                call.psi_psi[j] += own.sums[2 * n + j];
            }
            call.totals[0] += own.sums[3 * n];
            call.totals[1] += own.sums[3 * n + 1];
            call.totals[2] += own.sums[3 * n + 2];
            for (std::size_t t = 0; t < call.n_bags; ++t) {
                const double* sums = own.sums.data() + n_own + t * per_bag;
                for (std::size_t j = 0; j < n; ++j) {
                    call.K[t * n + j] += sums[j];
                    call.L[t * n + j] += sums[n + j];
                }
                call.d_d[t] += sums[width];
            }
        });
    });
}

}  // namespace truewood
