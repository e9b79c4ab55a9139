// Bindings of what looks at rows without trees: hashes of rows.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>

#include "python_rows.hpp"
#include "python_work.hpp"
#include "row_hashes.hpp"

namespace truewood {

namespace {

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

}  // namespace

void add_row_bindings(py::module_& module) {
    module.def("hash_rows", &bind_hash_rows, py::arg("table"), py::arg("factors"), py::arg("n_threads"),
               py::arg("hashes"));
}

}  // namespace truewood
