// Kernels of the cuda engine: leaves, sums at leaves, and the influence of single rows.
//
// Compiled by NVRTC with REAL as float or double, the type of x. A C++ compiler takes the same source for the host,
// where a block of threads is a loop (tests/helpers/cuda_on_host.hpp). So work is written in phases: within FOR_THREADS
// no thread reads what another one writes, except by atomic additions of integers, and between phases all threads wait.
#ifdef __CUDACC__
#define KERNEL extern "C" __global__ void
#define INLINE __device__ __forceinline__
#define SHARED extern __shared__ __align__(16) unsigned char shared[];
#define FOR_THREADS(tid) for (unsigned tid = threadIdx.x, once = 0; once < 1; ++once)
#define WAIT __syncthreads()
#define BLOCK_X blockIdx.x
#define BLOCK_Y blockIdx.y
#define GRID_X gridDim.x
#define GRID_Y gridDim.y
#define BLOCK_SIZE blockDim.x
#else
#include "cuda_on_host.hpp"
#endif

typedef long long Int;
typedef unsigned long long Word;

// Siblings are neighbors. For a split on categories, `threshold` holds the bits of the number of its set. For a leaf,
// `left` is ~k for node k in the order of the trees' arrays.
struct __align__(16) Node {
    double threshold;
    unsigned feature;  // with the two flags below
    int left;
};
#define MISSING_LEFT 0x80000000u
#define BY_SET 0x40000000u
#define FEATURE 0x3fffffffu

struct Sets {
    const Int* offset;  // set s is bits[offset[s]] .. bits[offset[s + 1]]
    const unsigned* bits;
};

INLINE bool holds(const Sets& sets, double set, double x) {
    const Int s = __double_as_longlong(set), start = sets.offset[s], n_words = sets.offset[s + 1] - start;
    if (!(x >= 0.0 && x < (double)(n_words * 32))) return false;
    const Int category = (Int)x;
    return (sets.bits[start + category / 32] >> (category % 32)) & 1u;
}

// The place that x leads to from a split.
INLINE int step(const Node& node, const Sets& sets, double x) {
    bool is_right = x > node.threshold;
    if (x != x) is_right = !(node.feature & MISSING_LEFT);
    else if (node.feature & BY_SET) is_right = !holds(sets, node.threshold, x);
    return node.left + is_right;
}

// A row whose values are `stride` apart.
struct Row {
    const REAL* values;
    Int stride;
    INLINE double operator[](unsigned feature) const { return (double)values[feature * stride]; }
};

// Copies a row into shared memory, where each thread has a column of its own, so that no two threads of a warp use the
// same bank. `n_staged` is 0 where there is no room.
INLINE Row stage(const REAL* x, Int row, int n_features, int n_staged, REAL* room, unsigned tid) {
    const REAL* from = x + row * n_features;
    if (n_staged == 0) return Row{from, 1};
    for (int j = 0; j < n_staged; ++j) room[(unsigned)j * BLOCK_SIZE + tid] = from[j];
    return Row{room + tid, (Int)BLOCK_SIZE};
}

// The leaf of a row.
template <class Values>
INLINE int find_leaf(const Node* nodes, int root, const Sets& sets, const Values& row) {
    Node node = nodes[root];
    while (node.left >= 0) node = nodes[step(node, sets, row[node.feature & FEATURE])];
    return ~node.left;
}

// How often a row evaluates a tree: once, or unless it is in the bag, or as often as it is listed.
INLINE unsigned count_scoring(const unsigned* times, int are_bags, Int n_rows, int tree, Int row) {
    if (!times) return 1u;
    const unsigned n = times[tree * n_rows + row];
    return are_bags ? n == 0u : n;
}

// Leaves of listed rows; a tree has those from offset[tree] on.
KERNEL find_leaves(const Node* nodes, const int* roots, int n_trees, const Int* set_offset, const unsigned* set_bits,
                   const REAL* x, int n_features, const Int* index, const Int* offset, int* leaves) {
    const Sets sets = {set_offset, set_bits};
    FOR_THREADS(tid) {
        for (int t = (int)BLOCK_Y; t < n_trees; t += (int)GRID_Y) {
            const Int first = offset[t] + (Int)BLOCK_X * BLOCK_SIZE + tid;
            for (Int i = first; i < offset[t + 1]; i += (Int)GRID_X * BLOCK_SIZE) {
                leaves[i] = find_leaf(nodes, roots[t], sets, Row{x + index[i] * n_features, 1});
            }
        }
    }
}

// A row with one value taken from another row.
struct Swapped {
    Row row, donor;
    unsigned column;
    INLINE double operator[](unsigned feature) const { return feature == column ? donor[feature] : row[feature]; }
};

// Leaves in one tree of n listed rows with each column in turn taken from a donor.
KERNEL find_swapped_leaves(const Node* nodes, const Int* set_offset, const unsigned* set_bits, const REAL* x,
                           int n_features, const Int* rows, const Int* donors, Int n, int* leaves) {
    const Sets sets = {set_offset, set_bits};
    FOR_THREADS(tid) {
        for (Int i = (Int)BLOCK_X * BLOCK_SIZE + tid; i < n * n_features; i += (Int)GRID_X * BLOCK_SIZE) {
            const Int at = i / n_features;
            const Swapped row = {
                {x + rows[at] * n_features, 1}, {x + donors[at] * n_features, 1}, (unsigned)(i % n_features)};
            leaves[i] = find_leaf(nodes, 0, sets, row);
        }
    }
}

// What a row adds at its leaf: integers, so that no sum depends on the order of additions. For classes, one, or the
// weight of the row, in the cell of the class of each output; for numbers, those of the row, beginning with its weight.
struct Amounts {
    const int* codes;  // null for numbers
    int n_outputs;
    const int* first_column;  // of each output
    const Int* amounts;       // n_amounts a row; null for classes where every row counts once
    int n_amounts;
    int width;  // cells of a node
};

// Calls add(cell, amount).
template <class Add>
INLINE void for_amounts(const Amounts& of, Int row, int column, const Add& add) {
    if (of.codes) {
        const Int amount = of.amounts ? of.amounts[row] : 1;
        for (int o = 0; o < of.n_outputs; ++o) add(of.first_column[o] + of.codes[row * of.n_outputs + o], amount);
        return;
    }
    const Int* own = of.amounts + row * of.n_amounts;
    add(0, own[0]);
    for (int k = 1; k < of.width; ++k) add(k, own[k + column]);
}

// A sum is stored as high * 2^30 + low, which has room for any number of rows.
#define LOW_BITS 30
INLINE void add_wide(Word* cell, Int amount) {
    const Int high = amount >> LOW_BITS;
    if (high) atomicAdd(cell, (Word)high);
    atomicAdd(cell + 1, (Word)(amount & ((1ll << LOW_BITS) - 1)));
}

struct AddWide {
    Word* node;
    Int times;
    INLINE void operator()(int cell, Int amount) const { add_wide(node + 2 * cell, amount * times); }
};

// Adds n rows, from row `first` on, to their leaves in some trees per block. `column` is the column of the target that
// each tree predicts; null where trees predict all of them.
KERNEL sum_rows(const Node* nodes, const int* roots, int n_trees, int trees_a_block, const Int* set_offset,
                const unsigned* set_bits, const REAL* x, int n_features, int n_staged, Int n, Int first,
                const int* codes, int n_outputs, const int* first_column, const Int* amounts, int n_amounts, int width,
                const int* column, const unsigned* times, int are_bags, Int n_rows, Word* sums) {
    SHARED
    const Sets sets = {set_offset, set_bits};
    const Amounts of = {codes, n_outputs, first_column, amounts, n_amounts, width};
    const int start = BLOCK_Y * trees_a_block, end = min(start + trees_a_block, n_trees);
    FOR_THREADS(tid) {
        const Int i = (Int)BLOCK_X * BLOCK_SIZE + tid;
        if (i < n) {
            const Row row = stage(x, i, n_features, n_staged, (REAL*)shared, tid);
            for (int t = start; t < end; ++t) {
                const unsigned n_times = count_scoring(times, are_bags, n_rows, t, first + i);
                if (n_times == 0u) continue;
                const int leaf = find_leaf(nodes, roots[t], sets, row);
                for_amounts(of, first + i, column ? column[t] : 0, AddWide{sums + (Int)leaf * width * 2, (Int)n_times});
            }
        }
    }
}

// In shared memory, where only 32-bit additions are fast, an amount is three parts of 20 bits, which leaves room for at
// most 4,096 rows.
#define PART_BITS 20
#define PART_MASK ((1u << PART_BITS) - 1u)
struct AddParts {
    unsigned* cells;
    INLINE void operator()(int cell, Int amount) const {
        unsigned* parts = cells + 3 * cell;
        const unsigned low = (unsigned)amount & PART_MASK, middle = (unsigned)(amount >> PART_BITS) & PART_MASK;
        const unsigned high = (unsigned)(amount >> (2 * PART_BITS));
        atomicAdd(parts, low);
        if (middle) atomicAdd(parts + 1, middle);
        if (high) atomicAdd(parts + 2, high);
    }
};

// The same for small trees that every row evaluates: a block sums up to 4,096 rows in shared memory first. `groups` has
// the first tree of each group of trees that fit there.
KERNEL sum_small_trees(const Node* nodes, const int* roots, const int* groups, const Int* set_offset,
                       const unsigned* set_bits, const REAL* x, int n_features, Int n, Int first, int rows_a_block,
                       const int* codes, int n_outputs, const int* first_column, const Int* amounts, int n_amounts,
                       int width, const int* column, Word* sums) {
    SHARED
    const Sets sets = {set_offset, set_bits};
    const Amounts of = {codes, n_outputs, first_column, amounts, n_amounts, width};
    const int start = groups[BLOCK_Y], end = groups[BLOCK_Y + 1];
    const int first_node = roots[start], n_cells = (roots[end] - first_node) * width;
    unsigned* cells = (unsigned*)shared;
    FOR_THREADS(tid) {
        for (int k = (int)tid; k < 3 * n_cells; k += (int)BLOCK_SIZE) cells[k] = 0u;
    }
    WAIT;
    FOR_THREADS(tid) {
        const Int from = (Int)BLOCK_X * rows_a_block, to = min(from + rows_a_block, n);
        for (Int i = from + tid; i < to; i += BLOCK_SIZE) {
            const Row row = {x + i * n_features, 1};
            for (int t = start; t < end; ++t) {
                const int leaf = find_leaf(nodes, roots[t], sets, row) - first_node;
                for_amounts(of, first + i, column ? column[t] : 0, AddParts{cells + 3 * leaf * width});
            }
        }
    }
    WAIT;
    FOR_THREADS(tid) {
        for (int k = (int)tid; k < n_cells; k += (int)BLOCK_SIZE) {
            const unsigned low = cells[3 * k], middle = cells[3 * k + 1];
            const int high = (int)cells[3 * k + 2];
            const unsigned rest = LOW_BITS - PART_BITS;
            Word* cell = sums + ((Int)first_node * width + k) * 2;
            const Int more = (Int)(middle >> rest) + (Int)high * (1ll << (2 * PART_BITS - LOW_BITS));
            const Int less = (Int)low + ((Int)(middle & ((1u << rest) - 1u)) << PART_BITS);
            if (more) atomicAdd(cell, (Word)more);
            if (less) atomicAdd(cell + 1, (Word)less);
        }
    }
}

// Nodes, each with the terms of a row in each of its roles, so that one load fetches both; zeros below splits that do
// not count.
struct Records {
    const unsigned char* records;
    int size;  // bytes of one
    int n_terms;
    const int* codes;
    int n_outputs;
    const int* first_column;
    const double* numbers;  // `stride` a row
    int stride;
    INLINE const Node& node(int place) const { return *(const Node*)(records + (Int)place * size); }
    INLINE double term(int place, int role, Int row, int column) const {
        const double* own = (const double*)(records + (Int)place * size + sizeof(Node)) + role * n_terms;
        if (codes) {
            double sum = own[codes[row * n_outputs]];
            for (int o = 1; o < n_outputs; ++o) sum += own[first_column[o] + codes[row * n_outputs + o]];
            return sum;
        }
        const double* y = numbers + row * stride + column;
        double linear = own[0] * y[0], square = y[0] * y[0];
        for (int c = 1; c < n_terms - 2; ++c) {
            linear += own[c] * y[c];
            square += y[c] * y[c];
        }
        return (linear + own[n_terms - 2] * square) + own[n_terms - 1];
    }
};

// Adds the influence of n rows, from row `first` on, tree after tree. An in-bag row of a tree adds to inbag_influence;
// its weight in the fit is `inbag_weight`, or how often it is in the bag. Sums of a row are kept in shared memory where
// there is room for `n_kept` of them.
KERNEL add_influence(const unsigned char* records, int record_size, int n_terms, const int* roots, int n_trees,
                     const Int* set_offset, const unsigned* set_bits, const REAL* x, int n_features, int n_staged,
                     int n_kept, Int n, Int first, const int* codes, int n_outputs, const int* first_column,
                     const double* numbers, int stride, const int* column, const double* row_weight,
                     const double* tree_weight, const unsigned* times, int are_bags, const double* inbag_weight,
                     Int n_rows, double* eval_influence, double* inbag_influence, float* bags, int n_bags,
                     Int first_bag_row, Int n_bag_rows) {
    SHARED
    const Sets sets = {set_offset, set_bits};
    const Records of = {records, record_size, n_terms, codes, n_outputs, first_column, numbers, stride};
    double* kept = (double*)shared;
    REAL* room = (REAL*)(kept + (Int)n_kept * BLOCK_SIZE);
    FOR_THREADS(tid) {
        const Int i = (Int)BLOCK_X * BLOCK_SIZE + tid;
        if (i < n) {
            const Int row = first + i;
            const Row values = stage(x, i, n_features, n_staged, room, tid);
            for (int k = 0; k < n_kept; ++k) kept[(unsigned)k * BLOCK_SIZE + tid] = 0.0;
            for (int t = 0; t < n_trees; ++t) {
                double weight = 0.0;
                int role = 0;
                if (inbag_influence) {
                    weight = are_bags       ? (double)times[t * n_rows + row]
                             : inbag_weight ? inbag_weight[t * n_rows + row]
                                            : 0.0;
                    role = weight > 0.0;
                    if (t < n_bags) bags[t * n_bag_rows + row - first_bag_row] = (float)weight;
                }
                if (role == 0) {
                    weight = (double)count_scoring(times, are_bags, n_rows, t, row);
                    if (row_weight) weight *= row_weight[row];
                }
                if (weight == 0.0) continue;
                if (tree_weight) weight *= tree_weight[t];
                double* out = (role ? inbag_influence : eval_influence) + i * n_features;
                const int shift = role * n_features;
                Node node = of.node(roots[t]);
                while (node.left >= 0) {
                    const unsigned feature = node.feature & FEATURE;
                    const int place = step(node, sets, values[feature]);
                    const double added = weight * of.term(place, role, row, column ? column[t] : 0);
                    node = of.node(place);
                    if (n_kept) kept[(feature + shift) * BLOCK_SIZE + tid] += added;
                    else out[feature] += added;
                }
            }
            for (int k = 0; k < n_kept; ++k) {
                double* out =
                    k < n_features ? eval_influence + i * n_features + k : inbag_influence + (i - 1) * n_features + k;
                *out += kept[(unsigned)k * BLOCK_SIZE + tid];
            }
        }
    }
}

// Influence of a row on the score of a column, minus the mean; 0 for a row that does not count.
INLINE double find_part(const double* influence, const bool* counts, double total_weight, const double* mean,
                        int n_columns, Int row, int column) {
    return counts[row] ? influence[row * n_columns + column] / total_weight - mean[column] : 0.0;
}

// Sums over rows_a_block rows per block of the products phi phi, phi psi and psi psi, and of phi, for each column; phi
// is the evaluation influence and psi the in-bag influence.
KERNEL sum_products(const double* eval_influence, const double* inbag_influence, const bool* counts,
                    double total_weight, const double* mean, int n_columns, Int n, int rows_a_block, double* sums) {
    const Int from = (Int)BLOCK_X * rows_a_block, to = min(from + rows_a_block, n);
    FOR_THREADS(tid) {
        for (int column = (int)tid; column < n_columns; column += (int)BLOCK_SIZE) {
            double products[4] = {0.0, 0.0, 0.0, 0.0};
            for (Int row = from; row < to; ++row) {
                const double a = find_part(eval_influence, counts, total_weight, mean, n_columns, row, column);
                products[0] += a * a;
                products[3] += a;
                if (!inbag_influence) continue;
                const double b = find_part(inbag_influence, counts, total_weight, mean, n_columns, row, column);
                products[1] += a * b;
                products[2] += b * b;
            }
            for (int k = 0; k < 4; ++k) sums[((Int)BLOCK_X * 4 + k) * n_columns + column] = products[k];
        }
    }
}

// The same for the sums over all columns: phi phi and phi psi of each row.
KERNEL multiply_totals(const double* eval_influence, const double* inbag_influence, const bool* counts,
                       double total_weight, const double* mean, int n_columns, Int n, double* products) {
    FOR_THREADS(tid) {
        const Int row = (Int)BLOCK_X * BLOCK_SIZE + tid;
        if (row < n) {
            double a = 0.0, b = 0.0;
            for (int column = 0; column < n_columns; ++column) {
                a += find_part(eval_influence, counts, total_weight, mean, n_columns, row, column);
                if (inbag_influence)
                    b += find_part(inbag_influence, counts, total_weight, mean, n_columns, row, column);
            }
            products[row] = a * a;
            products[n + row] = a * b;
        }
    }
}

// Draws bags as numpy's RandomState(seed).randint(0, n_rows, n_draws) does, one per block: how often each row is in it.
// The Mersenne Twister (Matsumoto & Nishimura 1998): `now` and `next` are its state before and after 624 words.
#define N_WORDS 624u
#define AHEAD 397u
INLINE unsigned twist(unsigned own, unsigned following, unsigned ahead) {
    const unsigned both = (own & 0x80000000u) | (following & 0x7fffffffu);
    return ahead ^ (both >> 1) ^ ((0u - (both & 1u)) & 0x9908b0dfu);
}

INLINE unsigned temper(unsigned word) {
    word ^= word >> 11;
    word ^= (word << 7) & 0x9d2c5680u;
    word ^= (word << 15) & 0xefc60000u;
    return word ^ (word >> 18);
}

KERNEL draw_bags(const unsigned* seeds, Int n_draws, Int n_rows, unsigned mask, unsigned* counts) {
    SHARED
    unsigned *now = (unsigned*)shared, *next = now + N_WORDS, *drawn = next + N_WORDS, *n_taken = drawn + N_WORDS;
    unsigned* own = counts + (Int)BLOCK_X * n_rows;
    const unsigned largest = (unsigned)(n_rows - 1), behind = N_WORDS - AHEAD;
    FOR_THREADS(tid) {
        if (tid == 0) {
            now[0] = seeds[BLOCK_X];
            for (unsigned i = 1; i < N_WORDS; ++i) now[i] = 1812433253u * (now[i - 1] ^ (now[i - 1] >> 30)) + i;
        }
    }
    WAIT;
    for (Int n_left = n_draws; n_left > 0;) {
        FOR_THREADS(tid) {
            if (tid == 0) *n_taken = 0u;
            for (unsigned i = tid; i < behind; i += BLOCK_SIZE) next[i] = twist(now[i], now[i + 1], now[i + AHEAD]);
        }
        WAIT;
        FOR_THREADS(tid) {
            for (unsigned i = behind + tid; i < 2 * behind; i += BLOCK_SIZE) {
                next[i] = twist(now[i], now[i + 1], next[i - behind]);
            }
        }
        WAIT;
        FOR_THREADS(tid) {
            for (unsigned i = 2 * behind + tid; i < N_WORDS; i += BLOCK_SIZE) {
                next[i] = twist(now[i], i + 1 < N_WORDS ? now[i + 1] : next[0], next[i - behind]);
            }
        }
        WAIT;
        FOR_THREADS(tid) {
            unsigned n_own = 0u;
            for (unsigned i = tid; i < N_WORDS; i += BLOCK_SIZE) {
                drawn[i] = temper(next[i]) & mask;
                n_own += drawn[i] <= largest;
            }
            if (n_own) atomicAdd(n_taken, n_own);
        }
        WAIT;
        const Int n_here = (Int)*n_taken;
        FOR_THREADS(tid) {
            if (n_here <= n_left) {
                for (unsigned i = tid; i < N_WORDS; i += BLOCK_SIZE) {
                    if (drawn[i] <= largest) atomicAdd(own + drawn[i], 1u);
                }
            } else if (tid == 0) {  // the last words, in their order
                Int rest = n_left;
                for (unsigned i = 0; rest > 0; ++i) {
                    if (drawn[i] > largest) continue;
                    atomicAdd(own + drawn[i], 1u);
                    --rest;
                }
            }
        }
        WAIT;
        n_left -= n_here;
        unsigned* const before = now;
        now = next;
        next = before;
    }
}
