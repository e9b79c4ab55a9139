// Hashes of rows, and whether any two agree: rows that are copies of each other have the same hash. No Python here.
//
// The numbers are those of numpy_row_hashes.py.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <variant>
#include <vector>

#include "matrix.hpp"
#include "row_matrix.hpp"
#include "simd_dispatch.hpp"
#include "threads.hpp"

namespace truewood {

// Bits of a number; the same for 0 and -0, and for all NaN. Small integers differ in their upper bits only, which
// products would shift out.
inline std::uint64_t read_bits(double value) {
    std::uint64_t bits;
    const double plain = value + 0.0;
    std::memcpy(&bits, &plain, sizeof(bits));
    if (value != value) bits = 0x7ff8000000000000u;
    return bits ^ (bits >> 32);
}

// Two sums of products.
struct HashSums {
    std::uint64_t first = 0, second = 0;

    // One hash: sums alone differ in their upper bits only.
    std::uint64_t mix() const {
        std::uint64_t mixed = first;
        for (const std::uint64_t factor : {0xff51afd7ed558ccdu, 0xc4ceb9fe1a85ec53u}) {  // the finalizer of MurmurHash3
            mixed = (mixed ^ (mixed >> 33)) * factor;
        }
        return (mixed ^ (mixed >> 33)) + second;
    }
};

// Factors of the columns, as two arrays.
struct ColumnFactors {
    std::vector<std::uint64_t> first, second;
};

template <class T>
inline HashSums sum_bits(const T* values, const ColumnFactors& factors) {
    HashSums sums;
    for (std::size_t j = 0; j < factors.first.size(); ++j) {
        const std::uint64_t bits = read_bits(static_cast<double>(values[j]));
        sums.first += bits * factors.first[j];
        sums.second += bits * factors.second[j];
    }
    return sums;
}

// Hashes of n rows from row `first` on.
TRUEWOOD_SIMD_DISPATCH
static void hash_range(const DenseMatrix<float>& matrix, std::size_t first, std::size_t n, const ColumnFactors& factors,
                       std::uint64_t* hashes) {
    const float* values = matrix.data + first * matrix.n_features;
    for (std::size_t i = 0; i < n; ++i) hashes[i] = sum_bits(values + i * matrix.n_features, factors).mix();
}

TRUEWOOD_SIMD_DISPATCH
static void hash_range(const DenseMatrix<double>& matrix, std::size_t first, std::size_t n,
                       const ColumnFactors& factors, std::uint64_t* hashes) {
    const double* values = matrix.data + first * matrix.n_features;
    for (std::size_t i = 0; i < n; ++i) hashes[i] = sum_bits(values + i * matrix.n_features, factors).mix();
}

// Values that are not stored add nothing, nor do stored ones that equal them.
template <class T>
void hash_range(const SparseMatrix<T>& matrix, std::size_t first, std::size_t n, const ColumnFactors& factors,
                std::uint64_t* hashes) {
    for (std::size_t i = 0; i < n; ++i) {
        const auto row = matrix.row(static_cast<std::int64_t>(first + i));
        HashSums sums;
        for (std::size_t k = 0; k < row.n_stored; ++k) {
            const T value = row.values[k];
            if (value == row.fill || (value != value && row.fill != row.fill)) continue;
            const std::uint64_t bits = read_bits(static_cast<double>(value));
            const auto column = static_cast<std::size_t>(row.columns[k]);
            sums.first += bits * factors.first[column];
            sums.second += bits * factors.second[column];
        }
        hashes[i] = sums.mix();
    }
}

// Whether any two of the hashes agree. They are first distributed by their upper bits, so that the hashes of a bucket
// fit into the cache.
class RepeatSearch {
public:
    RepeatSearch(const std::uint64_t* hashes, std::size_t n) : hashes_(hashes), n_(n), sorted_(n) {
        while ((n_ >> n_bits_) > kFew && n_bits_ < kMostBits) ++n_bits_;
        counts_.assign(n_blocks(), std::vector<std::size_t>(n_buckets(), 0));
    }

    bool find(ThreadTeam& team) {
        team.run(n_blocks(), [&](std::size_t, std::size_t block, InterruptPoller& poller) { count(block, poller); });
        std::size_t start = 0;
        for (std::size_t bucket = 0; bucket < n_buckets(); ++bucket) {
            starts_.push_back(start);
            for (std::vector<std::size_t>& counts : counts_) {
                const std::size_t n_here = counts[bucket];
                counts[bucket] = start;
                start += n_here;
            }
        }
        starts_.push_back(start);
        team.run(n_blocks(), [&](std::size_t, std::size_t block, InterruptPoller&) { distribute(block); });
        std::vector<Table> tables(team.n_threads());
        std::atomic<bool> has_found{false};
        team.run(n_buckets(), [&](std::size_t worker, std::size_t bucket, InterruptPoller& poller) {
            if (has_found) return;
            const std::size_t first = starts_[bucket], n_here = starts_[bucket + 1] - first;
            poller.count(static_cast<std::int64_t>(n_here));
            if (tables[worker].holds_repeat(sorted_.data() + first, n_here)) has_found = true;
        });
        return has_found;
    }

private:
    static constexpr std::size_t kBlock = std::size_t{1} << 16, kFew = std::size_t{1} << 12, kMostBits = 12;

    // Open addressing; 0 marks a free slot.
    class Table {
    public:
        bool holds_repeat(const std::uint64_t* hashes, std::size_t n) {
            std::size_t size = 2;
            while (size < 2 * n) size *= 2;
            slots_.assign(size, 0);
            bool has_zero = false;
            for (std::size_t i = 0; i < n; ++i) {
                const std::uint64_t hash = hashes[i];
                if (hash == 0) {
                    if (has_zero) return true;
                    has_zero = true;
                    continue;
                }
                std::size_t at = static_cast<std::size_t>(hash) & (size - 1);
                for (; slots_[at] != 0; at = (at + 1) & (size - 1)) {
                    if (slots_[at] == hash) return true;
                }
                slots_[at] = hash;
            }
            return false;
        }

    private:
        std::vector<std::uint64_t> slots_;
    };

    const std::uint64_t* hashes_;
    std::size_t n_, n_bits_ = 0;
    std::vector<std::uint64_t> sorted_;             // by bucket
    std::vector<std::vector<std::size_t>> counts_;  // by block and bucket; then, where the next hash goes
    std::vector<std::size_t> starts_;               // of the buckets

    std::size_t n_blocks() const { return (n_ + kBlock - 1) / kBlock; }
    std::size_t n_buckets() const { return std::size_t{1} << n_bits_; }
    std::size_t bucket_of(std::uint64_t hash) const {
        return n_bits_ == 0 ? 0 : static_cast<std::size_t>(hash >> (64 - n_bits_));
    }

    void count(std::size_t block, InterruptPoller& poller) {
        const std::size_t end = std::min(n_, (block + 1) * kBlock);
        poller.count(static_cast<std::int64_t>(kBlock));
        for (std::size_t i = block * kBlock; i < end; ++i) ++counts_[block][bucket_of(hashes_[i])];
    }

    void distribute(std::size_t block) {
        const std::size_t end = std::min(n_, (block + 1) * kBlock);
        for (std::size_t i = block * kBlock; i < end; ++i) {
            sorted_[counts_[block][bucket_of(hashes_[i])]++] = hashes_[i];
        }
    }
};

// Hashes all rows; returns whether any two hashes agree.
inline bool hash_rows(const RowMatrix& rows, const ColumnFactors& factors, ThreadTeam& team, std::uint64_t* hashes) {
    constexpr std::size_t kRows = 4096;
    team.run((rows.n_rows + kRows - 1) / kRows, [&](std::size_t, std::size_t item, InterruptPoller& poller) {
        const std::size_t first = item * kRows, n = std::min(kRows, rows.n_rows - first);
        poller.count(static_cast<std::int64_t>(n * factors.first.size()));
        std::visit([&](const auto& matrix) { hash_range(matrix, first, n, factors, hashes + first); }, rows.matrix);
    });
    return RepeatSearch(hashes, rows.n_rows).find(team);
}

}  // namespace truewood
