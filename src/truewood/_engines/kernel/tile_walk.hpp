// Sends the rows of a tile down a small tree together. No Python here.
//
// Leaves are numbered from left to right, and a row carries the number of the first leaf below its node. Splits come
// after those above them. Each compares the values of all rows of the tile, and moves those that are at its node and
// go right to the first leaf on the right. Nothing depends on the path of a single row, so that one vector holds many
// rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <variant>
#include <vector>

#include "simd_dispatch.hpp"
#include "tile.hpp"
#include "tree.hpp"

namespace truewood {

// A split. Rows at leaf number `from` whose code is above the threshold move to leaf number `to`.
template <class Code>
struct TileSplit {
    std::uint32_t column;  // column of the tile
    Code threshold, from, to;
};

#if defined(__GNUC__)  // and clang, except in its MSVC mode
// Finds the leaves of all kTile rows, in vectors of BYTES. This is a macro because in a template, the compiler would
// lower the vectors before it knows the target processor.
#define TRUEWOOD_WALK_TILE(NAME, TARGET, BYTES)                                                                   \
    template <class Code>                                                                                         \
    TARGET void NAME(const Code* tile, const std::vector<TileSplit<Code>>& splits, std::uint16_t* leaves) {       \
        typedef Code Codes __attribute__((vector_size(BYTES)));                                                   \
        constexpr std::size_t kLanes = BYTES / sizeof(Code), kVectors = 8;                                        \
        static_assert(kTile % (kLanes * kVectors) == 0);                                                          \
        for (std::size_t start = 0; start < kTile; start += kLanes * kVectors) {                                  \
            Codes leaf[kVectors] = {};                                                                            \
            for (const TileSplit<Code>& split : splits) {                                                         \
                const Codes threshold = split.threshold - Codes{};                                                \
                const Codes from = split.from - Codes{}, to = split.to - Codes{};                                 \
                const Code* x = tile + split.column * kTile + start;                                              \
                _Pragma("GCC unroll 8") for (std::size_t k = 0; k < kVectors; ++k) {                              \
                    Codes codes;                                                                                  \
                    std::memcpy(&codes, x + k * kLanes, BYTES);                                                   \
                    /* One condition makes one vector, two make masks; the results are the same. */               \
                    if constexpr (BYTES < 64) leaf[k] = ((codes > threshold) & (leaf[k] == from)) ? to : leaf[k]; \
                    else leaf[k] = codes > threshold ? (leaf[k] == from ? to : leaf[k]) : leaf[k];                \
                }                                                                                                 \
            }                                                                                                     \
            std::make_unsigned_t<Code> found[kVectors * kLanes];                                                  \
            std::memcpy(found, leaf, sizeof(found));                                                              \
            for (std::size_t i = 0; i < kVectors * kLanes; ++i) leaves[start + i] = found[i];                     \
        }                                                                                                         \
    }
TRUEWOOD_WALK_TILE(walk_tile_16, , 16)
#if defined(__x86_64__)
TRUEWOOD_WALK_TILE(walk_tile_avx2, __attribute__((target("avx2"))), 32)
TRUEWOOD_WALK_TILE(walk_tile_avx512, __attribute__((target("avx512f,avx512bw"))), 64)
#endif
#undef TRUEWOOD_WALK_TILE

template <class Code>
void walk_tile(const Code* tile, const std::vector<TileSplit<Code>>& splits, std::uint16_t* leaves) {
#if defined(__x86_64__)
    if (has_avx512()) return walk_tile_avx512(tile, splits, leaves);
    if (has_avx2()) return walk_tile_avx2(tile, splits, leaves);
#endif
    walk_tile_16(tile, splits, leaves);
}
#else
template <class Code>
void walk_tile(const Code* tile, const std::vector<TileSplit<Code>>& splits, std::uint16_t* leaves) {
    Code leaf[kTile] = {};
    for (const TileSplit<Code>& split : splits) {
        const Code* x = tile + split.column * kTile;
        for (std::size_t i = 0; i < kTile; ++i) {
            leaf[i] = x[i] > split.threshold && leaf[i] == split.from ? split.to : leaf[i];
        }
    }
    for (std::size_t i = 0; i < kTile; ++i) leaves[i] = static_cast<std::make_unsigned_t<Code>>(leaf[i]);
}
#endif

// A small tree without splits on categories.
class TileTree {
public:
    static constexpr std::size_t kMostLeaves = 256;

    static bool fits(const Structure& tree) { return tree.n_nodes() <= 2 * kMostLeaves - 1; }

    void clear() { is_packed_ = false; }
    bool is_packed() const { return is_packed_; }
    template <bool HasMissing, class T>
    void pack(const PackedTree<T>& tree, const std::vector<std::uint16_t>& first_leaf, const TileColumns& columns) {
        is_packed_ = true;
        if (columns.code_size() == 1) splits_ = list<HasMissing, std::int8_t>(tree, first_leaf, columns);
        else splits_ = list<HasMissing, std::int16_t>(tree, first_leaf, columns);
    }
    // Finds the number of the leaf of each row; `leaves` has room for kTile.
    void find(const Block& block, std::uint16_t* leaves) const {
        std::visit([&](const auto& splits) { walk(block, splits, leaves); }, splits_);
    }

private:
    bool is_packed_ = false;
    std::variant<std::vector<TileSplit<std::int8_t>>, std::vector<TileSplit<std::int16_t>>> splits_;

    template <class Code>
    static void walk(const Block& block, const std::vector<TileSplit<Code>>& splits, std::uint16_t* leaves) {
        walk_tile(block.codes(Code{}), splits, leaves);
    }
    template <bool HasMissing, class Code, class T>
    static std::vector<TileSplit<Code>> list(const PackedTree<T>& tree, const std::vector<std::uint16_t>& first_leaf,
                                             const TileColumns& columns) {
        std::vector<TileSplit<Code>> splits;
        const std::vector<std::int32_t>& left = tree.structure().left;
        for (std::size_t p = 0; p < left.size(); ++p) {
            if (left[p] < 0) continue;
            const auto place = static_cast<std::int32_t>(p);
            const std::size_t column = columns.find(tree.feature(place), HasMissing && !tree.sends_missing_left(place));
            splits.push_back({static_cast<std::uint32_t>(column),
                              columns[column].template code<Code>(static_cast<double>(tree.threshold(place))),
                              static_cast<Code>(first_leaf[p]),
                              static_cast<Code>(first_leaf[static_cast<std::size_t>(left[p]) + 1])});
        }
        return splits;
    }
};

}  // namespace truewood
