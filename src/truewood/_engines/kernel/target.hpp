// The target: classes or numbers. No Python here.
#pragma once

#include <cstddef>
#include <cstdint>

namespace truewood {

struct Target {
    const std::int32_t* codes = nullptr;  // classes: (row, output)
    const double* numbers = nullptr;      // numbers: (row, column), `stride` per row
    std::size_t stride = 0;
    std::size_t n_outputs = 0;
    std::size_t n_columns = 0;              // of a node's value
    const std::int64_t* columns = nullptr;  // output o has the columns columns[o] .. columns[o + 1]
    const double* row_weight = nullptr;     // optional; all rows count once without it
    bool has_squares = false;               // whether squares of numbers are summed as well
    const double* origin = nullptr;         // subtracted from the numbers of each column; needed for scores
    const double* largest = nullptr;        // largest absolute value of each column; needed for scores

    bool has_classes() const { return codes != nullptr; }
    // All columns of the target, even if a node has the value of one of them.
    std::size_t n_target_columns() const { return has_classes() ? n_columns : stride; }
    double weight(std::int64_t row) const { return row_weight ? row_weight[row] : 1.0; }
    // Sums per node: the weight, one sum per column, and perhaps one per squared column.
    std::size_t n_sums() const { return 1 + n_columns + (has_squares ? n_columns : 0); }
};

}  // namespace truewood
