// The Python face of kernel.hpp and terms.hpp: unwraps arrays, releases the GIL, calls. Arrays are taken as they are,
// never converted.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <thread>
#include <type_traits>

#include "kernel.hpp"
#include "terms.hpp"

namespace py = pybind11;
using namespace truewood;

template <class T>
using Array = py::array_t<T, py::array::c_style>;

namespace {

// A thread that asks for the GIL when the interpreter has ended is ended by Python, and C++ then ends the process with
// an error. So the interpreter waits for threads that are at work here, and they stop at the next pause.
std::atomic<bool> is_ending{false};
std::atomic<int> n_working{0};
std::thread::id last_thread;  // the one that ends the interpreter may work on

void stop_if_ending() {
    if (is_ending && std::this_thread::get_id() != last_thread) throw std::runtime_error("the interpreter is ending.");
}

void wait_for_threads() {
    last_thread = std::this_thread::get_id();
    is_ending = true;
    py::gil_scoped_release release;
    while (n_working > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// Work without the GIL.
class Work {
    struct Count {
        Count() {
            stop_if_ending();
            ++n_working;
        }
        ~Count() { --n_working; }
    };
    Count count_;
    py::gil_scoped_release release_;  // begins last and ends first
};

// Lets Python run its handlers of signals, so that Ctrl-C ends long work; called without the GIL.
void run_signal_handlers() {
    stop_if_ending();
    py::gil_scoped_acquire acquire;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

Pacer<void (*)()> make_pacer() { return Pacer<void (*)()>(run_signal_handlers); }

struct TreeArrays {
    Array<std::int32_t> feature;
    Array<double> threshold;
    Array<std::int32_t> left;
    Array<std::int32_t> right;
    Array<bool> missing_left;
    Array<std::int64_t> offset;
    std::optional<Array<std::int32_t>> node_set;  // these three come together
    std::optional<Array<std::int64_t>> set_offset;
    std::optional<Array<std::uint32_t>> bits;

    Trees view() const {
        return {feature.data(),
                threshold.data(),
                left.data(),
                right.data(),
                missing_left.data(),
                offset.data(),
                static_cast<std::size_t>(offset.size() - 1),
                node_set ? node_set->data() : nullptr,
                set_offset ? set_offset->data() : nullptr,
                bits ? bits->data() : nullptr};
    }
};

// Calls body(matrix) with a DenseMatrix when X is one array, with a SparseMatrix when it is (data, indices, indptr,
// fill).
template <class T, class Body>
void with_matrix_of(const py::object& X, Body body) {
    if (py::isinstance<py::tuple>(X)) {
        const auto parts = X.cast<py::tuple>();
        const auto data = parts[0].cast<Array<T>>();
        const auto indices = parts[1].cast<Array<std::int32_t>>();
        const auto indptr = parts[2].cast<Array<std::int64_t>>();
        const SparseMatrix<T> matrix{data.data(), indices.data(), indptr.data(), parts[3].cast<T>()};
        const Work work;
        body(matrix);
    } else {
        const auto dense = X.cast<Array<T>>();
        const DenseMatrix<T> matrix{dense.data(), static_cast<std::size_t>(dense.shape(1))};
        const Work work;
        body(matrix);
    }
}

// Calls body(matrix, has_missing, has_categories) with both as constants of the compiler.
template <class Body>
void with_matrix(const py::object& X, bool has_missing, bool has_categories, Body body) {
    const auto choose = [&](const auto& matrix) {
        using True = std::true_type;
        using False = std::false_type;
        if (has_missing && has_categories) body(matrix, True{}, True{});
        else if (has_missing) body(matrix, True{}, False{});
        else if (has_categories) body(matrix, False{}, True{});
        else body(matrix, False{}, False{});
    };
    const py::object first = py::isinstance<py::tuple>(X) ? py::object(X.cast<py::tuple>()[0]) : X;
    if (py::isinstance<py::array_t<float>>(first)) with_matrix_of<float>(X, choose);
    else with_matrix_of<double>(X, choose);
}

void bind_find_leaves(const TreeArrays& arrays, const py::object& X, bool has_missing, const Array<std::int64_t>& index,
                      const Array<std::int64_t>& offset, Array<std::int32_t>& leaves) {
    const Trees trees = arrays.view();
    const Rows rows{index.data(), offset.data()};
    std::int32_t* out = leaves.mutable_data();
    with_matrix(X, has_missing, trees.node_set != nullptr, [&](const auto& matrix, auto missing, auto categories) {
        find_all_leaves<missing.value, categories.value>(trees, matrix, rows, make_pacer(), out);
    });
}

void bind_find_swapped_leaves(const TreeArrays& arrays, const py::object& X, bool has_missing,
                              const Array<std::int64_t>& index, const Array<std::int64_t>& donors,
                              Array<std::int32_t>& leaves) {
    const Trees trees = arrays.view();
    const auto n = static_cast<std::size_t>(index.size());
    const auto n_features = static_cast<std::size_t>(leaves.shape(1));
    const std::int64_t* rows = index.data();
    const std::int64_t* from = donors.data();
    std::int32_t* out = leaves.mutable_data();
    with_matrix(X, has_missing, trees.node_set != nullptr, [&](const auto& matrix, auto missing, auto categories) {
        find_swapped_leaves<missing.value, categories.value>(trees, matrix, rows, from, n, n_features, make_pacer(),
                                                             out);
    });
}

template <class Index>
std::size_t bind_list_unseen(const Array<Index>& bag, Array<std::int64_t>& unseen) {
    const Index* drawn = bag.data();
    std::int64_t* out = unseen.mutable_data();
    const auto n_drawn = static_cast<std::size_t>(bag.size());
    const auto n_rows = static_cast<std::size_t>(unseen.size());
    const Work work;
    return list_unseen(drawn, n_drawn, n_rows, out);
}

void bind_sum_codes(const TreeArrays& arrays, const Array<std::int32_t>& leaves, const Array<std::int64_t>& index,
                    const Array<std::int32_t>& codes, const Array<std::int64_t>& first_column,
                    const std::optional<Array<double>>& row_weight, Array<double>& weight, Array<double>& total) {
    const Trees trees = arrays.view();
    const auto n_columns = static_cast<std::size_t>(total.shape(1));
    const double* w = row_weight ? row_weight->data() : nullptr;
    double* weight_out = weight.mutable_data();
    double* total_out = total.mutable_data();
    const Work work;
    add_codes(leaves.data(), index.data(), static_cast<std::size_t>(index.size()), codes.data(), first_column.data(),
              static_cast<std::size_t>(codes.shape(1)), n_columns, w, make_pacer(), weight_out, total_out);
    add_up(trees, 1, weight_out);
    add_up(trees, n_columns, total_out);
}

void bind_sum_numbers(const TreeArrays& arrays, const Array<std::int32_t>& leaves, const Array<std::int64_t>& index,
                      const Array<std::int64_t>& offset, const Array<double>& numbers,
                      const std::optional<Array<std::int32_t>>& column, const std::optional<Array<double>>& row_weight,
                      Array<double>& weight, Array<double>& total, Array<double>& square) {
    const Trees trees = arrays.view();
    const auto stride = static_cast<std::size_t>(numbers.shape(1));
    const auto n_columns = static_cast<std::size_t>(total.shape(1));
    const double* w = row_weight ? row_weight->data() : nullptr;
    const std::int32_t* first = column ? column->data() : nullptr;
    double* weight_out = weight.mutable_data();
    double* total_out = total.mutable_data();
    double* square_out = square.mutable_data();
    auto pacer = make_pacer();
    const Work work;
    for (std::size_t t = 0; t < trees.n_trees; ++t) {
        const std::int64_t start = offset.data()[t], end = offset.data()[t + 1];
        add_numbers(leaves.data() + start, index.data() + start, static_cast<std::size_t>(end - start),
                    numbers.data() + (first ? first[t] : 0), stride, n_columns, w, pacer, weight_out, total_out,
                    square_out);
    }
    add_up(trees, 1, weight_out);
    add_up(trees, n_columns, total_out);
    add_up(trees, n_columns, square_out);
}

// Calls add_terms with the types of matrix and target that are at hand.
template <class Target>
void add_terms_of(const Trees& trees, const py::object& X, const Rows& rows, const double* row_weight,
                  const Target& target, const std::int32_t* column, const Terms& terms, Array<double>& out) {
    const auto n_features = static_cast<std::size_t>(out.shape(1));
    double* sums = out.mutable_data();
    with_matrix(X, true, trees.node_set != nullptr, [&](const auto& matrix, auto, auto categories) {
        add_terms<categories.value>(trees, matrix, rows, row_weight, target, column, terms, n_features, make_pacer(),
                                    sums);
    });
}

void bind_add_class_terms(const TreeArrays& arrays, const py::object& X, const Array<std::int64_t>& index,
                          const Array<std::int64_t>& offset, const Array<double>& row_weight,
                          const Array<std::int32_t>& codes, const Array<std::int64_t>& first_column,
                          const Array<double>& by_class, Array<double>& out) {
    const Trees trees = arrays.view();
    const Rows rows{index.data(), offset.data()};
    const Terms terms{by_class.data(), static_cast<std::size_t>(by_class.shape(1)), nullptr, nullptr};
    const auto n_outputs = static_cast<std::size_t>(codes.shape(1));
    if (n_outputs == 1) {
        add_terms_of(trees, X, rows, row_weight.data(), OneCode{codes.data()}, nullptr, terms, out);
    } else {
        const Codes several{codes.data(), first_column.data(), n_outputs};
        add_terms_of(trees, X, rows, row_weight.data(), several, nullptr, terms, out);
    }
}

void bind_add_number_terms(const TreeArrays& arrays, const py::object& X, const Array<std::int64_t>& index,
                           const Array<std::int64_t>& offset, const Array<double>& row_weight,
                           const Array<double>& numbers, const std::optional<Array<std::int32_t>>& column,
                           const Array<double>& linear, const Array<double>& square, const Array<double>& constant,
                           Array<double>& out) {
    const Trees trees = arrays.view();
    const Rows rows{index.data(), offset.data()};
    const Terms terms{linear.data(), static_cast<std::size_t>(linear.shape(1)), square.data(), constant.data()};
    const std::int32_t* of_tree = column ? column->data() : nullptr;
    const auto stride = static_cast<std::size_t>(numbers.shape(1));
    if (terms.n_columns == 1) {
        add_terms_of(trees, X, rows, row_weight.data(), OneNumber{numbers.data(), stride}, of_tree, terms, out);
    } else {
        add_terms_of(trees, X, rows, row_weight.data(), Numbers{numbers.data(), stride}, of_tree, terms, out);
    }
}

}  // namespace

PYBIND11_MODULE(_kernel, module) {
    py::module_::import("atexit").attr("register")(py::cpp_function(wait_for_threads));
    const auto os = py::module_::import("os");
    if (py::hasattr(os, "register_at_fork")) {  // a child has none of the threads of its parent
        os.attr("register_at_fork")(py::arg("after_in_child") = py::cpp_function([] { n_working = 0; }));
    }
    py::class_<TreeArrays>(module, "TreeArrays")
        .def(py::init<Array<std::int32_t>, Array<double>, Array<std::int32_t>, Array<std::int32_t>, Array<bool>,
                      Array<std::int64_t>, std::optional<Array<std::int32_t>>, std::optional<Array<std::int64_t>>,
                      std::optional<Array<std::uint32_t>>>(),
             py::arg("feature").noconvert(), py::arg("threshold").noconvert(), py::arg("left").noconvert(),
             py::arg("right").noconvert(), py::arg("missing_left").noconvert(), py::arg("offset").noconvert(),
             py::arg("node_set").noconvert().none(true), py::arg("set_offset").noconvert().none(true),
             py::arg("bits").noconvert().none(true));
    module.def("find_leaves", &bind_find_leaves, py::arg("trees"), py::arg("X"), py::arg("has_missing"),
               py::arg("index").noconvert(), py::arg("offset").noconvert(), py::arg("leaves").noconvert());
    module.def("find_swapped_leaves", &bind_find_swapped_leaves, py::arg("trees"), py::arg("X"), py::arg("has_missing"),
               py::arg("index").noconvert(), py::arg("donors").noconvert(), py::arg("leaves").noconvert());
    module.def("list_unseen", &bind_list_unseen<std::int32_t>, py::arg("bag").noconvert(),
               py::arg("unseen").noconvert());
    module.def("list_unseen", &bind_list_unseen<std::int64_t>, py::arg("bag").noconvert(),
               py::arg("unseen").noconvert());
    module.def("sum_codes", &bind_sum_codes, py::arg("trees"), py::arg("leaves").noconvert(),
               py::arg("index").noconvert(), py::arg("codes").noconvert(), py::arg("first_column").noconvert(),
               py::arg("row_weight").noconvert().none(true), py::arg("weight").noconvert(),
               py::arg("total").noconvert());
    module.def("sum_numbers", &bind_sum_numbers, py::arg("trees"), py::arg("leaves").noconvert(),
               py::arg("index").noconvert(), py::arg("offset").noconvert(), py::arg("numbers").noconvert(),
               py::arg("column").noconvert().none(true), py::arg("row_weight").noconvert().none(true),
               py::arg("weight").noconvert(), py::arg("total").noconvert(), py::arg("square").noconvert());
    module.def("add_class_terms", &bind_add_class_terms, py::arg("trees"), py::arg("X"), py::arg("index").noconvert(),
               py::arg("offset").noconvert(), py::arg("row_weight").noconvert(), py::arg("codes").noconvert(),
               py::arg("first_column").noconvert(), py::arg("by_class").noconvert(), py::arg("out").noconvert());
    module.def("add_number_terms", &bind_add_number_terms, py::arg("trees"), py::arg("X"), py::arg("index").noconvert(),
               py::arg("offset").noconvert(), py::arg("row_weight").noconvert(), py::arg("numbers").noconvert(),
               py::arg("column").noconvert().none(true), py::arg("linear").noconvert(), py::arg("square").noconvert(),
               py::arg("constant").noconvert(), py::arg("out").noconvert());
}
