// QuickScorer (Lucchese et al. 2015): finds leaves of small trees without walking. Every split is evaluated for every
// row and rules out leaves, for several rows at once. No Python here.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#if defined(_MSC_VER)
#include <intrin.h>
#endif

#include "simd_dispatch.hpp"
#include "tile.hpp"
#include "tree.hpp"

namespace truewood {

// A split; leaves are bits of one or two words.
struct QuickscorerSplit {
    float threshold;
    std::uint32_t column;      // column of the tile
    std::uint32_t left[2];     // leaves that a value above the threshold rules out: those on the left
    std::uint32_t missing[2];  // leaves that a missing value rules out
};

#if defined(__GNUC__)  // and clang, except in its MSVC mode
// Finds the leaves that the splits of a tree rule out, for the rows of a tile, BYTES at a time. This is a macro because
// in a template, the compiler would lower the vectors before it knows the target processor.
#define TRUEWOOD_RULE_OUT(NAME, TARGET, BYTES)                                                                   \
    template <bool HasMissing, std::size_t Words>                                                                \
    TARGET void NAME(const float* tile, const std::vector<QuickscorerSplit>& splits, std::uint32_t* ruled_out) { \
        typedef float Values __attribute__((vector_size(BYTES)));                                                \
        typedef std::uint32_t Leaves __attribute__((vector_size(BYTES)));                                        \
        constexpr std::size_t kVectors = kTile * sizeof(float) / BYTES;                                          \
        Leaves out[Words][kVectors] = {};                                                                        \
        for (const QuickscorerSplit& split : splits) {                                                           \
            const Values threshold = split.threshold - Values{};                                                 \
            const float* x = tile + split.column * kTile;                                                        \
            _Pragma("GCC unroll 8") for (std::size_t k = 0; k < kVectors; ++k) {                                 \
                Values values;                                                                                   \
                std::memcpy(&values, x + k * (BYTES / sizeof(float)), BYTES);                                    \
                _Pragma("GCC unroll 2") for (std::size_t w = 0; w < Words; ++w) {                                \
                    out[w][k] |= (Leaves)(values > threshold) & (split.left[w] - Leaves{});                      \
                    if constexpr (HasMissing) {                                                                  \
                        out[w][k] |= (Leaves)(values != values) & (split.missing[w] - Leaves{});                 \
                    }                                                                                            \
                }                                                                                                \
            }                                                                                                    \
        }                                                                                                        \
        std::memcpy(ruled_out, out, sizeof(out));                                                                \
    }
TRUEWOOD_RULE_OUT(rule_out_16, , 16)
#if defined(__x86_64__)
TRUEWOOD_RULE_OUT(rule_out_avx2, __attribute__((target("avx2"))), 32)
#endif
#undef TRUEWOOD_RULE_OUT

template <bool HasMissing, std::size_t Words>
void rule_out(const float* tile, const std::vector<QuickscorerSplit>& splits, std::uint32_t* ruled_out) {
#if defined(__x86_64__)
    if (has_avx2()) return rule_out_avx2<HasMissing, Words>(tile, splits, ruled_out);
#endif
    rule_out_16<HasMissing, Words>(tile, splits, ruled_out);
}
#else
template <bool HasMissing, std::size_t Words>
void rule_out(const float* tile, const std::vector<QuickscorerSplit>& splits, std::uint32_t* ruled_out) {
    std::fill(ruled_out, ruled_out + Words * kTile, 0u);
    for (const QuickscorerSplit& split : splits) {
        const float* x = tile + split.column * kTile;
        for (std::size_t w = 0; w < Words; ++w) {
            for (std::size_t i = 0; i < kTile; ++i) {
                ruled_out[w * kTile + i] |= x[i] > split.threshold ? split.left[w] : 0u;
                if constexpr (HasMissing) ruled_out[w * kTile + i] |= x[i] != x[i] ? split.missing[w] : 0u;
            }
        }
    }
}
#endif

// Position of the lowest set bit.
inline std::size_t find_lowest(std::uint64_t bits) {
#if defined(_MSC_VER)
    unsigned long place;
    _BitScanForward64(&place, bits);
    return place;
#else
    return static_cast<std::size_t>(__builtin_ctzll(bits));
#endif
}

// A small tree. Leaves are numbered from left to right.
template <bool HasMissing>
class Quickscorer {
public:
    static constexpr std::size_t kMostLeaves = 64;

    static bool fits(const Structure& tree) { return tree.n_nodes() <= 2 * kMostLeaves - 1; }

    void clear() {
        splits_.clear();
        leaf_place_.clear();
    }
    // Packs a tree that fits and has no splits on categories.
    template <class T>
    void pack(const PackedTree<T>& tree, const TileColumns& columns) {
        clear();
        visit(tree, columns, 0);
    }
    bool empty() const { return leaf_place_.empty(); }

    // Finds the leaf of each row of a block, by place.
    void find(const Block& block, std::size_t n_columns, std::int32_t* leaves) const {
        if (leaf_place_.size() <= 32) find<1>(block, n_columns, leaves);
        else find<2>(block, n_columns, leaves);
    }

private:
    std::vector<QuickscorerSplit> splits_;
    std::vector<std::int32_t> leaf_place_;

    template <std::size_t Words>
    void find(const Block& block, std::size_t n_columns, std::int32_t* leaves) const {
        std::uint32_t ruled_out[Words * kTile];
        const float* tile = block.tiles.data();
        for (std::size_t start = 0; start < block.n; start += kTile, tile += kTile * n_columns) {
            rule_out<HasMissing, Words>(tile, splits_, ruled_out);
            const std::size_t n_here = std::min(kTile, block.n - start);
            for (std::size_t i = 0; i < n_here; ++i) {
                std::uint64_t bits = ruled_out[i];
                if constexpr (Words == 2) bits |= static_cast<std::uint64_t>(ruled_out[kTile + i]) << 32;
                leaves[start + i] = leaf_place_[find_lowest(~bits)];
            }
        }
    }

    // Returns the leaves below a place as bits; the recursion is at most as deep as the number of leaves.
    template <class T>
    std::uint64_t visit(const PackedTree<T>& tree, const TileColumns& columns, std::int32_t place) {
        const std::int32_t left = tree.structure().left[place];
        if (left < 0) {
            leaf_place_.push_back(place);
            return std::uint64_t{1} << (leaf_place_.size() - 1);
        }
        const std::uint64_t on_left = visit(tree, columns, left);
        const std::int32_t feature = tree.feature(place);
        const std::uint64_t missing = tree.sends_missing_left(place) ? 0 : on_left;
        splits_.push_back({columns.code(feature, tree.threshold(place)),
                           static_cast<std::uint32_t>(columns.column(feature)),
                           {static_cast<std::uint32_t>(on_left), static_cast<std::uint32_t>(on_left >> 32)},
                           {static_cast<std::uint32_t>(missing), static_cast<std::uint32_t>(missing >> 32)}});
        return on_left | visit(tree, columns, left + 1);
    }
};

}  // namespace truewood
