// The influence of all rows on small trees: tables hold the path sums of every leaf, and rows look up their leaves. No
// Python here.
//
// tree_influence.hpp computes the same numbers, in the same order, by sorting rows. Tables are faster where a tree has
// few leaves and many rows. Rows look up eight features (a line of 64 bytes) at a time, so that the tables of several
// trees fit into the cache, and the sums of a row stay in registers while it passes through these trees.
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
#include "tile.hpp"
#include "tree.hpp"
#include "tree_rows.hpp"

namespace truewood {

// Values of eight features.
struct alignas(64) TableLine {
    static constexpr std::size_t kSize = 8;
    double value[kSize];
};

inline std::size_t count_lines(std::size_t n_features) {
    return (n_features + TableLine::kSize - 1) / TableLine::kSize;
}

// Path sums of evaluation rows: (line, leaf, term). Classes have one term each; numbers have a factor of the number,
// perhaps a factor of its square, and a constant.
class LeafTable {
public:
    // `paths` is scratch memory.
    void make(const Structure& tree, const std::vector<std::int32_t>& leaf_place, const RowTerms& terms,
              const Target& target, std::size_t n_features, std::vector<TableLine>& paths) {
        terms_.clear();
        for (std::size_t k = 0; k < terms.width(); ++k) {
            if (target.has_classes() || k != 1 || has_squares(tree, terms)) terms_.push_back(k);
        }
        n_leaves_ = leaf_place.size();
        const std::size_t n_lines = count_lines(n_features), stride = n_lines * n_terms();
        paths.assign(tree.n_nodes() * stride, TableLine{});  // (place, line, term)
        for (std::size_t p = 1; p < tree.n_nodes(); ++p) {
            const auto m = static_cast<std::size_t>(tree.parent[p]);
            TableLine* own = paths.data() + p * stride;
            std::copy_n(paths.data() + m * stride, stride, own);
            if (!terms.is_counted(static_cast<std::int32_t>(p))) continue;
            const auto feature = static_cast<std::size_t>(tree.feature[m]);
            own += feature / TableLine::kSize * n_terms();
            for (const std::size_t k : terms_) {
                own++->value[feature % TableLine::kSize] += terms.at(static_cast<std::int32_t>(p))[k];
            }
        }
        lines_.resize(n_leaves_ * stride);
        for (std::size_t leaf = 0; leaf < n_leaves_; ++leaf) {
            const TableLine* own = paths.data() + static_cast<std::size_t>(leaf_place[leaf]) * stride;
            for (std::size_t line = 0; line < n_lines; ++line) {
                std::copy_n(own + line * n_terms(), n_terms(), lines_.data() + (line * n_leaves_ + leaf) * n_terms());
            }
        }
    }

    const double* line(std::size_t number) const { return lines_[number * n_leaves_ * n_terms()].value; }
    std::size_t n_terms() const { return terms_.size(); }

private:
    std::size_t n_leaves_ = 0;
    std::vector<std::size_t> terms_;
    std::vector<TableLine> lines_;

    static bool has_squares(const Structure& tree, const RowTerms& terms) {
        for (std::size_t p = 1; p < tree.n_nodes(); ++p) {
            if (terms.at(static_cast<std::int32_t>(p))[1] != 0) return true;
        }
        return false;
    }
};

// Tables of trees in which the rows of a tile are looked up, all with the same column of the target. Pointers to rows
// point to the first row of the tile.
struct LookedUpTrees {
    static constexpr std::size_t kMost = 8;
    const double* line[kMost];
    double weight[kMost];
    const std::uint16_t* offset;  // of the leaf within the line, in doubles: (tree, row), kTile rows per tree
    const double* numbers;        // or null for classes
    const std::int32_t* codes;    // or null for numbers
    std::size_t next_target;      // from row to row
    const double* row_weight;     // or null

    bool is_weighted() const {
        return row_weight || std::any_of(weight, weight + kMost, [](double own) { return own != 1.0; });
    }
};

#if defined(__GNUC__)
// Adds the influence of rows on several trees for a line of features. This is a macro for the same reason as the one in
// tile_walk.hpp. `Terms` is 1 for classes.
#define TRUEWOOD_LOOK_UP(NAME, TARGET, BYTES)                                                            \
    template <std::size_t Trees, std::size_t Terms, bool IsWeighted>                                     \
    TARGET void NAME(const LookedUpTrees& trees, std::size_t n_rows, TableLine* sums) {                  \
        typedef double Numbers __attribute__((vector_size(BYTES)));                                      \
        constexpr std::size_t kVectors = sizeof(TableLine) / BYTES;                                      \
        const double* line[Trees];                                                                       \
        std::copy_n(trees.line, Trees, line);                                                            \
        const std::uint16_t* offset = trees.offset;                                                      \
        const double* number = trees.numbers;                                                            \
        const std::int32_t* code = trees.codes;                                                          \
        const std::size_t next_target = trees.next_target;                                               \
        for (std::size_t i = 0; i < n_rows; ++i, ++offset) {                                             \
            Numbers sum[kVectors];                                                                       \
            std::memcpy(sum, sums + i, sizeof(sum));                                                     \
            double y = 0.0;                                                                              \
            std::size_t first = 0;                                                                       \
            if constexpr (Terms > 1) y = *number, number += next_target;                                 \
            else first = static_cast<std::size_t>(*code) * TableLine::kSize, code += next_target;        \
            _Pragma("GCC unroll 8") for (std::size_t t = 0; t < Trees; ++t) {                            \
                const char* at = reinterpret_cast<const char*>(line[t] + offset[t * kTile] + first);     \
                double weight = 1.0;                                                                     \
                if constexpr (IsWeighted) {                                                              \
                    weight = trees.row_weight ? trees.weight[t] * trees.row_weight[i] : trees.weight[t]; \
                }                                                                                        \
                _Pragma("GCC unroll 4") for (std::size_t k = 0; k < kVectors; ++k, at += BYTES) {        \
                    Numbers part, term;                                                                  \
                    std::memcpy(&part, at, BYTES);                                                       \
                    if constexpr (Terms > 1) part = part * y;                                            \
                    if constexpr (Terms > 2) {                                                           \
                        std::memcpy(&term, at + sizeof(TableLine), BYTES);                               \
                        part = part + term * (y * y);                                                    \
                    }                                                                                    \
                    if constexpr (Terms > 1) {                                                           \
                        std::memcpy(&term, at + (Terms - 1) * sizeof(TableLine), BYTES);                 \
                        part = part + term;                                                              \
                    }                                                                                    \
                    if constexpr (IsWeighted) part = part * weight;                                      \
                    sum[k] = sum[k] + part;                                                              \
                }                                                                                        \
            }                                                                                            \
            std::memcpy(sums + i, sum, sizeof(sum));                                                     \
        }                                                                                                \
    }
TRUEWOOD_LOOK_UP(look_up_16, , 16)
#if defined(__x86_64__)
TRUEWOOD_LOOK_UP(look_up_avx2, __attribute__((target("avx2"))), 32)
TRUEWOOD_LOOK_UP(look_up_avx512, __attribute__((target("avx512f,avx512bw"))), 64)
#endif
#undef TRUEWOOD_LOOK_UP

template <std::size_t Trees, std::size_t Terms, bool IsWeighted>
void look_up(const LookedUpTrees& trees, std::size_t n_rows, TableLine* sums) {
#if defined(__x86_64__)
    if (has_avx512()) return look_up_avx512<Trees, Terms, IsWeighted>(trees, n_rows, sums);
    if (has_avx2()) return look_up_avx2<Trees, Terms, IsWeighted>(trees, n_rows, sums);
#endif
    look_up_16<Trees, Terms, IsWeighted>(trees, n_rows, sums);
}
#else
template <std::size_t Trees, std::size_t Terms, bool IsWeighted>
void look_up(const LookedUpTrees& trees, std::size_t n_rows, TableLine* sums) {
    for (std::size_t i = 0; i < n_rows; ++i) {
        const double y = Terms > 1 ? trees.numbers[i * trees.next_target] : 0.0;
        const std::size_t code = Terms > 1 ? 0 : static_cast<std::size_t>(trees.codes[i * trees.next_target]);
        for (std::size_t t = 0; t < Trees; ++t) {
            const double* at = trees.line[t] + trees.offset[t * kTile + i] + code * TableLine::kSize;
            const double weight = trees.row_weight ? trees.weight[t] * trees.row_weight[i] : trees.weight[t];
            for (std::size_t k = 0; k < TableLine::kSize; ++k) {
                double part = at[k];
                if (Terms > 1) part = part * y;
                if (Terms > 2) part = part + at[TableLine::kSize + k] * (y * y);
                if (Terms > 1) part = part + at[(Terms - 1) * TableLine::kSize + k];
                sums[i].value[k] += part * weight;
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
          first_tile_(static_cast<std::size_t>(out.first) / kTile),
          n_tiles_((static_cast<std::size_t>(out.first) + out.n_rows + kTile - 1) / kTile - first_tile_),
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

    // Starts a batch of trees with at most `most_leaves` leaves.
    void start(std::size_t n_trees, std::size_t most_leaves) {
        n_trees_ = n_trees;
        leaf_bytes_ = most_leaves <= 256 ? 1 : 2;
        tables_.resize(std::max(tables_.size(), n_trees));
        const std::size_t n_bytes = n_tiles_ * n_trees * kTile * leaf_bytes_;
        if (n_bytes <= n_bytes_) return;
        n_bytes_ = n_bytes;
        leaves_.reset(new unsigned char[n_bytes]);  // not zeroed, unlike a vector
    }

    // Stores the leaves in tree k of the batch of the tile that starts with row `from`. Threads may store different
    // tiles.
    void keep_leaves(std::size_t k, std::size_t from, const std::uint16_t* leaves) {
        const std::size_t tile = from / kTile;
        if (tile < first_tile_ || tile >= first_tile_ + n_tiles_) return;
        unsigned char* into = find_leaves(tile - first_tile_, k);
        if (leaf_bytes_ == 2) std::memcpy(into, leaves, 2 * kTile);
        else std::transform(leaves, leaves + kTile, into, [](auto leaf) { return static_cast<unsigned char>(leaf); });
    }

    // Makes the table of tree k of the batch. Threads may make different tables.
    void make_table(std::size_t w, std::size_t k, const Structure& tree, const std::vector<std::int32_t>& leaf_place,
                    const RowTerms& terms) {
        tables_[k].make(tree, leaf_place, terms, inputs_.target, inputs_.n_features, workers_[w].sums);
    }

    // Adds the influence on all trees of the batch, which starts with tree number `start`.
    void add(std::size_t start, ThreadTeam& team) {
        team.run((n_tiles_ + kTiles - 1) / kTiles, [&](std::size_t w, std::size_t item, InterruptPoller& poller) {
            Worker& worker = workers_[w];
            const std::size_t first = item * kTiles, n_tiles = std::min(kTiles, n_tiles_ - first);
            worker.sums.assign(n_tiles * n_lines() * kTile, TableLine{});
            worker.offset.resize(n_tiles * LookedUpTrees::kMost * kTile);
            copy_sums(
                first, n_tiles, [&](double* out, double* sums, std::size_t n) { std::copy_n(out, n, sums); }, worker);
            for (std::size_t k = 0, n; k < n_trees_; k += n) {
                n = count_alike(start, k);
                poller.count(static_cast<std::int64_t>(n * n_tiles * kTile));
                for (std::size_t tile = 0; tile < n_tiles; ++tile) find_offsets(first + tile, k, n, tile, worker);
                for (std::size_t line = 0; line < n_lines(); ++line) {
                    for (std::size_t tile = 0; tile < n_tiles; ++tile) add_line(start, k, n, line, first, tile, worker);
                }
            }
            copy_sums(
                first, n_tiles, [&](double* out, double* sums, std::size_t n) { std::copy_n(sums, n, out); }, worker);
        });
    }

private:
    // Number of tiles that use the tables of some trees before the next trees.
    static constexpr std::size_t kTiles = 2;
    // Wider rows, and larger tables, are left to InfluencePass.
    static constexpr std::size_t kMostLines = 8, kTableLines = std::size_t{1} << 14;

    struct Worker {
        std::vector<TableLine> sums;        // (tile, line, row)
        std::vector<std::uint16_t> offset;  // (tile, tree, row)
    };

    const TreesAndRows& inputs_;
    const InfluenceOutput& out_;
    std::size_t first_tile_, n_tiles_;
    std::size_t n_trees_ = 0, leaf_bytes_ = 0, n_bytes_ = 0;
    std::vector<LeafTable> tables_;
    std::unique_ptr<unsigned char[]> leaves_;  // (tile, tree, row), in numbers of leaf_bytes_
    std::vector<Worker> workers_;

    std::size_t n_lines() const { return count_lines(inputs_.n_features); }
    unsigned char* find_leaves(std::size_t tile, std::size_t k) const {
        return leaves_.get() + (tile * n_trees_ + k) * kTile * leaf_bytes_;
    }
    // The first row of a tile, and the end of its rows, whose influence is computed.
    std::size_t first_row(std::size_t tile) const {
        return std::max((first_tile_ + tile) * kTile, static_cast<std::size_t>(out_.first));
    }
    std::size_t end_row(std::size_t tile) const {
        return std::min((first_tile_ + tile + 1) * kTile, static_cast<std::size_t>(out_.first) + out_.n_rows);
    }
    // Calls copy(influence, sums, n) for each row and line of some tiles.
    template <class Copy>
    void copy_sums(std::size_t first, std::size_t n_tiles, const Copy& copy, Worker& worker) const {
        const std::size_t n_features = inputs_.n_features;
        for (std::size_t tile = 0; tile < n_tiles; ++tile) {
            const std::size_t begin = (first_tile_ + first + tile) * kTile;
            for (std::size_t row = first_row(first + tile); row < end_row(first + tile); ++row) {
                double* out = out_.eval_influence + (row - static_cast<std::size_t>(out_.first)) * n_features;
                for (std::size_t line = 0; line < n_lines(); ++line, out += TableLine::kSize) {
                    copy(out, worker.sums[(tile * n_lines() + line) * kTile + row - begin].value,
                         std::min(TableLine::kSize, n_features - line * TableLine::kSize));
                }
            }
        }
    }
    // How many trees of the batch, from tree k on, can be looked up at once: kMost or 1.
    std::size_t count_alike(std::size_t start, std::size_t k) const {
        if (k + LookedUpTrees::kMost > n_trees_) return 1;
        for (std::size_t i = 1; i < LookedUpTrees::kMost; ++i) {
            if (tables_[k + i].n_terms() != tables_[k].n_terms() ||
                inputs_.column[start + k + i] != inputs_.column[start + k]) {
                return 1;
            }
        }
        return LookedUpTrees::kMost;
    }

    // Finds the offsets of the leaves in n trees from tree k on, for a tile that is number `into` of the worker's.
    void find_offsets(std::size_t tile, std::size_t k, std::size_t n, std::size_t into, Worker& worker) const {
        std::uint16_t* offset = worker.offset.data() + into * LookedUpTrees::kMost * kTile;
        const auto per_leaf = static_cast<std::uint16_t>(tables_[k].n_terms() * TableLine::kSize);
        const unsigned char* leaves = find_leaves(tile, k);
        const auto multiply = [=](std::uint16_t leaf) { return static_cast<std::uint16_t>(leaf * per_leaf); };
        if (leaf_bytes_ == 1) {
            std::transform(leaves, leaves + n * kTile, offset, multiply);
            return;
        }
        std::memcpy(offset, leaves, n * kTile * 2);
        std::transform(offset, offset + n * kTile, offset, multiply);
    }

    // Adds the influence of a line of features, for n trees from tree k on, to the worker's sums of a tile.
    void add_line(std::size_t start, std::size_t k, std::size_t n, std::size_t line, std::size_t first,
                  std::size_t tile, Worker& worker) const {
        const Target& target = inputs_.target;
        const bool has_classes = target.has_classes();
        const std::size_t row = first_row(first + tile), begin = row - (first_tile_ + first + tile) * kTile;
        LookedUpTrees trees;
        for (std::size_t i = 0; i < LookedUpTrees::kMost; ++i) {
            const std::size_t tree = k + std::min(i, n - 1);
            trees.line[i] = tables_[tree].line(line);
            trees.weight[i] = out_.weigh_tree(start + tree);
        }
        trees.offset = worker.offset.data() + tile * LookedUpTrees::kMost * kTile + begin;
        trees.numbers = has_classes ? nullptr : target.numbers + row * target.stride + inputs_.column[start + k];
        trees.codes = has_classes ? target.codes + row : nullptr;
        trees.next_target = has_classes ? 1 : target.stride;
        trees.row_weight = target.row_weight ? target.row_weight + row : nullptr;
        const std::size_t n_rows = end_row(first + tile) - row, n_terms = has_classes ? 1 : tables_[k].n_terms();
        TableLine* sums = worker.sums.data() + (tile * n_lines() + line) * kTile + begin;
        if (n == 1) look_up<1>(trees, n_terms, n_rows, sums);
        else look_up<LookedUpTrees::kMost>(trees, n_terms, n_rows, sums);
    }
    template <std::size_t Trees>
    static void look_up(const LookedUpTrees& trees, std::size_t n_terms, std::size_t n_rows, TableLine* sums) {
        if (n_terms == 1) look_up<Trees, 1>(trees, n_rows, sums);
        else if (n_terms == 2) look_up<Trees, 2>(trees, n_rows, sums);
        else look_up<Trees, 3>(trees, n_rows, sums);
    }
    template <std::size_t Trees, std::size_t Terms>
    static void look_up(const LookedUpTrees& trees, std::size_t n_rows, TableLine* sums) {
        if (trees.is_weighted()) truewood::look_up<Trees, Terms, true>(trees, n_rows, sums);
        else truewood::look_up<Trees, Terms, false>(trees, n_rows, sums);
    }
};

}  // namespace truewood
