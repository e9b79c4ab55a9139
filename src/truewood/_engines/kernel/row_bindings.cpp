// Bindings of what looks at rows without trees: counts and hashes of rows, and the nearest rows.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <type_traits>
#include <variant>

#include "python_rows.hpp"
#include "python_work.hpp"
#include "row_hashes.hpp"
#include "row_neighbors.hpp"

namespace truewood {

namespace {

template <class Index>
void count_rows_of(const View<const Index>& listed, const View<double>& counts) {
    const Work work;
    check_below("listed", listed.data, listed.size(), counts.size());
    for (std::size_t k = 0; k < listed.size(); ++k) counts.data[listed.data[k]] += 1.0;
}

// Adds how often each row is listed.
void bind_count_rows(const py::object& listed, const py::object& counts) {
    const auto out = write_array<double>("counts", counts, {kAny});
    if (has_type<std::int32_t>(listed)) return count_rows_of(read_array<std::int32_t>("listed", listed, {kAny}), out);
    count_rows_of(read_array<std::int64_t>("listed", listed, {kAny}), out);
}

bool bind_hash_rows(const Table& table, const py::object& factors, std::size_t n_threads, const py::object& hashes) {
    const std::size_t n_features = table.n_features();
    const auto given = read_array<std::uint64_t>("factors", factors, {n_features, 2});
    const auto out = write_array<std::uint64_t>("hashes", hashes, {table.n_rows()});
    ColumnFactors own;
    for (std::size_t j = 0; j < n_features; ++j) {
        own.first.push_back(given.data[2 * j]);
        own.second.push_back(given.data[2 * j + 1]);
    }
    const Work work;
    ThreadTeam team(n_threads, run_signal_handlers);
    return hash_rows(table.rows(), own, team, out.data);
}

void bind_find_neighbors(const Table& table, const py::object& columns, const py::object& labels,
                         const py::object& tested, std::size_t n_threads, const py::object& nearest,
                         const py::object& n_found, const py::object& spread, const py::object& largest) {
    const std::size_t n_rows = table.n_rows();
    const auto used = read_array<std::int64_t>("columns", columns, {kAny});
    const auto rows = read_array<std::int64_t>("tested", tested, {kAny});
    const auto label = read_array<double>("labels", labels, {n_rows});
    const auto into = write_array<std::int64_t>("nearest", nearest, {rows.size(), kAny});
    const NeighborOutput out{into.data, write_array<std::int64_t>("n_found", n_found, {rows.size()}).data,
                             write_array<double>("spread", spread, {rows.size(), used.size()}).data,
                             write_array<double>("largest", largest, {rows.size()}).data, into.shape[1]};
    if (out.n_nearest == 0) throw py::value_error(describe_mismatch("nearest", "have at least one column", "none"));
    const Work work;
    check_below("columns", used.data, used.size(), table.n_features());
    check_below("tested", rows.data, rows.size(), n_rows);
    ThreadTeam team(n_threads, run_signal_handlers);
    std::visit(
        [&](const auto& matrix) {
            using Matrix = std::decay_t<decltype(matrix)>;
            using Value = typename Matrix::Value;
            if constexpr (std::is_same_v<Matrix, DenseMatrix<Value>>) {
                const LabeledRows<Value> labeled{matrix,    n_rows,      label.data, rows.data,
                                                 used.data, rows.size(), used.size()};
                NeighborSearch<Value>(labeled).find(team, out);
            } else {
                throw std::invalid_argument(describe_mismatch("X", "be dense", "a sparse matrix"));
            }
        },
        table.rows().matrix);
}

}  // namespace

void add_row_bindings(py::module_& module) {
    module.def("count_rows", &bind_count_rows, py::arg("listed"), py::arg("counts"));
    module.def("hash_rows", &bind_hash_rows, py::arg("table"), py::arg("factors"), py::arg("n_threads"),
               py::arg("hashes"));
    module.def("find_neighbors", &bind_find_neighbors, py::arg("table"), py::arg("columns"), py::arg("labels"),
               py::arg("tested"), py::arg("n_threads"), py::arg("nearest"), py::arg("n_found"), py::arg("spread"),
               py::arg("largest"));
}

}  // namespace truewood
