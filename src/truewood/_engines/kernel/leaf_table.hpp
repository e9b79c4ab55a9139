// The influence of all rows on small trees: tables hold the path sums of every leaf, and rows look up their leaves. No
// Python here.
//
// tree_influence.hpp computes the same numbers, in the same order, by sorting rows. Tables are faster where a tree has
// few leaves and many rows: the sums of a row stay in registers while it passes through several trees.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "row_terms.hpp"
#include "simd_dispatch.hpp"
#include "target.hpp"
#include "threads.hpp"
#include "tree.hpp"
#include "tree_rows.hpp"

namespace truewood {

// Table rows consist of lines of 64 bytes, so that no vector extends over two of them.
struct alignas(64) TableLine {
    static constexpr std::size_t kSize = 8;
    double value[kSize];
};

inline std::size_t count_lines(std::size_t n_features) {
    return (n_features + TableLine::kSize - 1) / TableLine::kSize;
}

// Path sums of evaluation rows by node: (place, term, feature). Classes have one term each; numbers have a factor of
// the number, perhaps a factor of its square, and a constant.
class LeafTable {
public:
    void make(const Structure& tree, const RowTerms& terms, const Target& target, std::size_t n_features) {
        n_lines_ = count_lines(n_features);
        terms_.clear();
        for (std::size_t k = 0; k < terms.width(); ++k) {
            if (target.has_classes() || k != 1 || has_squares(tree, terms)) terms_.push_back(k);
        }
        lines_.assign(tree.n_nodes() * stride(), TableLine{});
        for (std::size_t p = 1; p < tree.n_nodes(); ++p) {
            const auto m = static_cast<std::size_t>(tree.parent[p]);
            std::copy_n(lines_.begin() + static_cast<std::ptrdiff_t>(m * stride()), stride(),
                        lines_.begin() + static_cast<std::ptrdiff_t>(p * stride()));
            if (!terms.is_counted(static_cast<std::int32_t>(p))) continue;
            const auto feature = static_cast<std::size_t>(tree.feature[m]);
            TableLine* line = lines_.data() + p * stride() + feature / TableLine::kSize;
            for (const std::size_t k : terms_) {
                line->value[feature % TableLine::kSize] += terms.at(static_cast<std::int32_t>(p))[k];
                line += n_lines_;
            }
        }
    }

    const TableLine* lines() const { return lines_.data(); }
    std::size_t n_terms() const { return terms_.size(); }
    // Lines per node.
    std::size_t stride() const { return terms_.size() * n_lines_; }

private:
    std::size_t n_lines_ = 0;  // per term
    std::vector<std::size_t> terms_;
    std::vector<TableLine> lines_;

    static bool has_squares(const Structure& tree, const RowTerms& terms) {
        for (std::size_t p = 1; p < tree.n_nodes(); ++p) {
            if (terms.at(static_cast<std::int32_t>(p))[1] != 0) return true;
        }
        return false;
    }
};

// A tree as rows look it up. Pointers to rows point to the first of them.
struct LookedUpTree {
    const TableLine* lines;
    std::size_t stride;           // lines per node
    std::size_t next_term;        // lines per term
    const std::uint16_t* leaves;  // of the rows, by place
    const double* numbers;        // or null for classes
    const std::int32_t* codes;    // or null for numbers
    std::size_t next_target;      // from row to row
    double tree_weight;
    const double* row_weight;  // or null

    double weigh(std::size_t row) const { return row_weight ? tree_weight * row_weight[row] : tree_weight; }
    const TableLine* find(std::size_t row) const {
        const TableLine* line = lines + leaves[row] * stride;
        return codes ? line + static_cast<std::size_t>(codes[row * next_target]) * next_term : line;
    }
};

#if defined(__GNUC__)
// Adds the influence of rows on several trees, for `Lines` lines of features. This is a macro for the same reason as
// the one in quickscorer.hpp.
#define TRUEWOOD_LOOK_UP(NAME, TARGET, BYTES)                                                                  \
    template <std::size_t Terms, std::size_t Lines>                                                            \
    TARGET void NAME(const LookedUpTree* trees, std::size_t n_trees, std::size_t n_rows, std::size_t n_lines,  \
                     TableLine* sums) {                                                                        \
        typedef double Numbers __attribute__((vector_size(BYTES)));                                            \
        constexpr std::size_t kVectors = Lines * sizeof(TableLine) / BYTES;                                    \
        for (std::size_t i = 0; i < n_rows; ++i, sums += n_lines) {                                            \
            Numbers sum[kVectors];                                                                             \
            std::memcpy(sum, sums, sizeof(sum));                                                               \
            for (std::size_t t = 0; t < n_trees; ++t) {                                                        \
                const LookedUpTree& tree = trees[t];                                                           \
                const double weight = tree.weigh(i), y = Terms > 1 ? tree.numbers[i * tree.next_target] : 0.0; \
                const char* at = reinterpret_cast<const char*>(tree.find(i));                                  \
                const std::size_t next = tree.next_term * sizeof(TableLine);                                   \
                _Pragma("GCC unroll 16") for (std::size_t k = 0; k < kVectors; ++k, at += BYTES) {             \
                    Numbers part, term;                                                                        \
                    std::memcpy(&part, at, BYTES);                                                             \
                    if constexpr (Terms > 1) part = part * y;                                                  \
                    if constexpr (Terms > 2) {                                                                 \
                        std::memcpy(&term, at + next, BYTES);                                                  \
                        part = part + term * (y * y);                                                          \
                    }                                                                                          \
                    if constexpr (Terms > 1) {                                                                 \
                        std::memcpy(&term, at + (Terms - 1) * next, BYTES);                                    \
                        part = part + term;                                                                    \
                    }                                                                                          \
                    sum[k] = sum[k] + part * weight;                                                           \
                }                                                                                              \
            }                                                                                                  \
            std::memcpy(sums, sum, sizeof(sum));                                                               \
        }                                                                                                      \
    }
TRUEWOOD_LOOK_UP(look_up_16, , 16)
#if defined(__x86_64__)
TRUEWOOD_LOOK_UP(look_up_avx2, __attribute__((target("avx2"))), 32)
TRUEWOOD_LOOK_UP(look_up_avx512, __attribute__((target("avx512f"))), 64)
#endif
#undef TRUEWOOD_LOOK_UP

template <std::size_t Terms, std::size_t Lines>
void look_up(const LookedUpTree* trees, std::size_t n_trees, std::size_t n_rows, std::size_t n_lines, TableLine* sums) {
#if defined(__x86_64__)
    if (has_avx512()) return look_up_avx512<Terms, Lines>(trees, n_trees, n_rows, n_lines, sums);
    if (has_avx2()) return look_up_avx2<Terms, Lines>(trees, n_trees, n_rows, n_lines, sums);
#endif
    look_up_16<Terms, Lines>(trees, n_trees, n_rows, n_lines, sums);
}
#else
template <std::size_t Terms, std::size_t Lines>
void look_up(const LookedUpTree* trees, std::size_t n_trees, std::size_t n_rows, std::size_t n_lines, TableLine* sums) {
    for (std::size_t i = 0; i < n_rows; ++i, sums += n_lines) {
        for (std::size_t t = 0; t < n_trees; ++t) {
            const LookedUpTree& tree = trees[t];
            const double weight = tree.weigh(i), y = Terms > 1 ? tree.numbers[i * tree.next_target] : 0.0;
            const TableLine* at = tree.find(i);
            for (std::size_t k = 0; k < Lines * TableLine::kSize; ++k) {
                const auto term = [&](std::size_t number) {
                    return at[number * tree.next_term + k / TableLine::kSize].value[k % TableLine::kSize];
                };
                double part = term(0);
                if (Terms > 1) part = part * y;
                if (Terms > 2) part = part + term(1) * (y * y);
                if (Terms > 1) part = part + term(Terms - 1);
                sums[k / TableLine::kSize].value[k % TableLine::kSize] += part * weight;
            }
        }
    }
}
#endif

// Adds the influence of all rows on a batch of trees, tree after tree, so that results do not depend on the number of
// threads.
class LookUpPass {
public:
    LookUpPass(const TreesAndRows& inputs, const InfluenceOutput& out, std::size_t n_threads)
        : inputs_(inputs),
          out_(out),
          n_lines_(count_lines(inputs.n_features)),
          block_(std::min(kMostRows, std::max<std::size_t>(16, (out.n_rows + n_threads - 1) / n_threads))),
          n_blocks_((out.n_rows + block_ - 1) / block_),
          workers_(n_threads) {}

    // Whether tables pay off for trees of at most `most_nodes` nodes.
    static bool pays_off(const TreesAndRows& inputs, const InfluenceOutput& out, std::size_t most_nodes) {
        const Target& target = inputs.target;
        const std::size_t n_terms = target.has_classes() ? target.n_columns : 3;
        const std::size_t n_lines = count_lines(inputs.n_features);
        return !out.residual && (target.has_classes() ? target.n_outputs : target.n_columns) == 1 && n_lines > 0 &&
               n_lines <= kMostLines && most_nodes * n_terms <= out.n_rows &&
               most_nodes * n_terms * n_lines <= kTableLines;
    }
    static std::size_t count_bytes(const TreesAndRows& inputs) {  // per node
        const std::size_t n_terms = inputs.target.has_classes() ? inputs.target.n_columns : 3;
        return n_terms * count_lines(inputs.n_features) * sizeof(TableLine);
    }

    // Starts a batch of trees.
    void start(std::size_t n_trees) {
        tables_.resize(std::max(tables_.size(), n_trees));
        n_trees_ = n_trees;
        if (n_blocks_ * block_ * n_trees <= n_leaves_) return;
        n_leaves_ = n_blocks_ * block_ * n_trees;
        leaves_.reset(new std::uint16_t[n_leaves_]);  // not zeroed, unlike a vector
    }

    // Stores the leaves, by place, of n rows from row `from` on in tree k of the batch. Threads may store different
    // rows.
    void keep_leaves(std::size_t k, std::size_t from, std::size_t n, const std::int32_t* leaves) {
        const auto first = static_cast<std::size_t>(out_.first), last = std::min(from + n, first + out_.n_rows);
        for (std::size_t row = std::max(from, first); row < last;) {
            const std::size_t end = std::min(last, first + ((row - first) / block_ + 1) * block_);
            std::uint16_t* into = leaves_.get() + place(k, row - first);
            for (; row < end; ++row) *into++ = static_cast<std::uint16_t>(leaves[row - from]);
        }
    }

    // Makes the table of tree k of the batch. Threads may make different tables.
    void make_table(std::size_t k, const Structure& tree, const RowTerms& terms) {
        tables_[k].make(tree, terms, inputs_.target, inputs_.n_features);
    }

    // Adds the influence on all trees of the batch, which starts with tree number `start`.
    void add(std::size_t start, ThreadTeam& team) {
        team.run(n_blocks_, [&](std::size_t w, std::size_t item, InterruptPoller& poller) {
            const std::size_t first = item * block_, n_rows = std::min(block_, out_.n_rows - first);
            const std::size_t n_features = inputs_.n_features;
            double* out = out_.eval_influence + first * n_features;
            std::vector<TableLine>& sums = workers_[w];
            sums.assign(n_rows * n_lines_, TableLine{});
            for (std::size_t i = 0; i < n_rows; ++i) {
                std::copy_n(out + i * n_features, n_features, sums[i * n_lines_].value);
            }
            poller.count(static_cast<std::int64_t>(n_rows * n_trees_));
            for (std::size_t k = 0; k < n_trees_;) {
                LookedUpTree several[kTrees];
                std::size_t n = 0;
                const std::size_t n_terms = tables_[k].n_terms();
                for (; n < kTrees && k < n_trees_ && tables_[k].n_terms() == n_terms; ++n, ++k) {
                    several[n] = look_at(start + k, k, first);
                }
                if (inputs_.target.has_classes()) add_lines<1>(several, n, n_rows, sums.data());
                else if (n_terms == 2) add_lines<2>(several, n, n_rows, sums.data());
                else add_lines<3>(several, n, n_rows, sums.data());
            }
            for (std::size_t i = 0; i < n_rows; ++i) {
                std::copy_n(sums[i * n_lines_].value, n_features, out + i * n_features);
            }
        });
    }

private:
    // Maximum number of rows in a block, whose sums should fit into the cache, and number of trees to pass at once.
    static constexpr std::size_t kMostRows = 1024, kTrees = 8;
    // Wider rows, and larger tables, are left to InfluencePass.
    static constexpr std::size_t kMostLines = 8, kTableLines = std::size_t{1} << 14;

    const TreesAndRows& inputs_;
    const InfluenceOutput& out_;
    std::size_t n_lines_;
    std::size_t block_, n_blocks_;  // rows per block
    std::size_t n_trees_ = 0, n_leaves_ = 0;
    std::vector<LeafTable> tables_;
    std::unique_ptr<std::uint16_t[]> leaves_;      // (block of rows, tree, row)
    std::vector<std::vector<TableLine>> workers_;  // sums of a block of rows

    std::size_t place(std::size_t k, std::size_t row) const {
        return (row / block_ * n_trees_ + k) * block_ + row % block_;
    }

    // Tree number t, which is tree k of the batch.
    LookedUpTree look_at(std::size_t t, std::size_t k, std::size_t first) const {
        const Target& target = inputs_.target;
        const std::size_t row = static_cast<std::size_t>(out_.first) + first;
        const bool has_classes = target.has_classes();
        return {tables_[k].lines(),
                tables_[k].stride(),
                n_lines_,
                leaves_.get() + place(k, first),
                has_classes ? nullptr : target.numbers + row * target.stride + inputs_.column[t],
                has_classes ? target.codes + row : nullptr,
                has_classes ? 1 : target.stride,
                out_.weigh_tree(t),
                target.row_weight ? target.row_weight + row : nullptr};
    }

    template <std::size_t Terms>
    void add_lines(LookedUpTree* trees, std::size_t n_trees, std::size_t n_rows, TableLine* sums) const {
        for (std::size_t done = 0; done < n_lines_;) {
            const std::size_t n = n_lines_ - done >= 4 ? 4 : n_lines_ - done >= 2 ? 2 : 1;
            if (n == 4) look_up<Terms, 4>(trees, n_trees, n_rows, n_lines_, sums + done);
            else if (n == 2) look_up<Terms, 2>(trees, n_trees, n_rows, n_lines_, sums + done);
            else look_up<Terms, 1>(trees, n_trees, n_rows, n_lines_, sums + done);
            for (std::size_t k = 0; k < n_trees; ++k) trees[k].lines += n;
            done += n;
        }
    }
};

}  // namespace truewood
