// The Python face of the kernel: unwraps arrays, releases the GIL, calls. Arrays are taken as they are, never
// converted.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "climb.hpp"
#include "row_products.hpp"
#include "score.hpp"

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

template <class T>
const T* data_or_null(const std::optional<Array<T>>& array) {
    return array ? array->data() : nullptr;
}

// Trees, and the arrays that they are in.
class Forest {
public:
    // Trees one behind the other in the arrays of a TreeEnsemble; the last three arrays come together.
    static Forest of_ensemble(const Array<std::int32_t>& feature, const Array<double>& threshold,
                              const Array<std::int32_t>& left, const Array<std::int32_t>& right,
                              const Array<bool>& missing_left, const Array<double>& weight, const Array<double>& value,
                              const Array<std::int64_t>& offset, const std::optional<Array<std::int32_t>>& node_set,
                              const std::optional<Array<std::int64_t>>& set_offset,
                              const std::optional<Array<std::uint32_t>>& bits) {
        Forest forest;
        forest.kept_ = {feature, threshold, left, right, missing_left, weight, value, offset};
        forest.n_columns_ = value.shape(1);
        if (node_set) forest.kept_.insert(forest.kept_.end(), {*node_set, *set_offset, *bits});
        for (py::ssize_t t = 0; t + 1 < offset.size(); ++t) {
            const std::int64_t first = offset.data()[t];
            forest.trees_.push_back({static_cast<std::size_t>(offset.data()[t + 1] - first), field(feature, first),
                                     field(threshold, first), field(left, first), field(right, first),
                                     field(missing_left, first), first, field(weight, first), field(value, first),
                                     value.strides(1), node_set ? node_set->data() + first : nullptr,
                                     data_or_null(set_offset), data_or_null(bits)});
        }
        return forest;
    }

    // Trees where they lie: for each feature, threshold, left, right, missing_left, weight and value.
    static Forest of_trees(const py::list& trees) {
        Forest forest;
        for (const py::handle item : trees) {
            const auto parts = item.cast<py::tuple>();
            std::vector<py::array> arrays;
            for (std::size_t k = 0; k < 7; ++k) arrays.push_back(parts[k].cast<py::array>());
            const py::ssize_t n_nodes = arrays[0].shape(0);
            for (std::size_t k = 0; k < 7; ++k) {
                const bool is_number = k == 1 || k >= 5;
                const char kind = arrays[k].dtype().kind();
                const auto size = arrays[k].itemsize();
                const bool fits = is_number ? kind == 'f' && size == 8
                                  : k == 4  ? (kind == 'b' || kind == 'u') && size == 1
                                            : kind == 'i' && (size == 4 || size == 8);
                if (!fits || arrays[k].ndim() != (k == 6 ? 2 : 1) || arrays[k].shape(0) != n_nodes || n_nodes < 1) {
                    throw BrokenTree("the arrays of a tree have other types or shapes than they should.");
                }
            }
            if (arrays[6].shape(1) != forest.n_columns_ && !forest.trees_.empty()) {
                throw BrokenTree("the trees have values of different widths.");
            }
            forest.trees_.push_back({static_cast<std::size_t>(n_nodes), field(arrays[0], 0), field(arrays[1], 0),
                                     field(arrays[2], 0), field(arrays[3], 0), field(arrays[4], 0), 0,
                                     field(arrays[5], 0), field(arrays[6], 0), arrays[6].strides(1), nullptr, nullptr,
                                     nullptr});
            forest.n_columns_ = arrays[6].shape(1);
            for (auto& array : arrays) forest.kept_.push_back(std::move(array));
        }
        return forest;
    }

    const std::vector<Source>& trees() const { return trees_; }
    std::size_t n_columns() const { return static_cast<std::size_t>(n_columns_); }
    bool has_categories() const { return !trees_.empty() && trees_[0].node_set != nullptr; }

private:
    std::vector<Source> trees_;
    std::vector<py::array> kept_;
    py::ssize_t n_columns_ = 0;

    static Field field(const py::array& array, std::int64_t first) {
        const py::ssize_t stride = array.strides(0);
        return {static_cast<const char*>(array.data()) + first * stride, stride,
                static_cast<std::size_t>(array.itemsize())};
    }
};

// A target, and the arrays that it is in. `columns` says where the columns of each output begin, and where the last
// ends.
class TargetArrays {
public:
    TargetArrays(std::optional<Array<std::int32_t>> codes, std::optional<Array<double>> numbers,
                 Array<std::int64_t> columns, std::optional<Array<double>> row_weight)
        : codes_(std::move(codes)),
          numbers_(std::move(numbers)),
          columns_(std::move(columns)),
          row_weight_(std::move(row_weight)) {}

    Target view() const {
        const auto n_outputs = static_cast<std::size_t>(columns_.size() - 1);
        return {data_or_null(codes_),
                data_or_null(numbers_),
                numbers_ ? static_cast<std::size_t>(numbers_->shape(1)) : 0,
                n_outputs,
                static_cast<std::size_t>(columns_.data()[n_outputs]),
                columns_.data(),
                data_or_null(row_weight_),
                numbers_.has_value()};
    }

private:
    std::optional<Array<std::int32_t>> codes_;
    std::optional<Array<double>> numbers_;
    Array<std::int64_t> columns_;
    std::optional<Array<double>> row_weight_;
};

template <class Matrix>
std::unique_ptr<Walker> make_walker_of(const Matrix& matrix, bool has_missing, bool has_categories, std::size_t n) {
    if (has_missing && has_categories) return std::make_unique<WalkerOf<true, true, Matrix>>(matrix, n);
    if (has_missing) return std::make_unique<WalkerOf<true, false, Matrix>>(matrix, n);
    if (has_categories) return std::make_unique<WalkerOf<false, true, Matrix>>(matrix, n);
    return std::make_unique<WalkerOf<false, false, Matrix>>(matrix, n);
}

template <class T>
std::unique_ptr<Walker> make_walker_for(const py::object& X, bool has_missing, bool has_categories, std::size_t n) {
    if (!py::isinstance<py::tuple>(X)) {
        const auto dense = X.cast<Array<T>>();
        const DenseMatrix<T> matrix{dense.data(), static_cast<std::size_t>(dense.shape(1))};
        return make_walker_of(matrix, has_missing, has_categories, n);
    }
    const auto parts = X.cast<py::tuple>();
    const auto indptr = parts[2].cast<Array<std::int64_t>>();
    const SparseMatrix<T> matrix{parts[0].cast<Array<T>>().data(), parts[1].cast<Array<std::int32_t>>().data(),
                                 indptr.data(), parts[3].cast<T>(), static_cast<std::size_t>(indptr.size() - 1)};
    return make_walker_of(matrix, has_missing, has_categories, n);
}

// X is one array, or (data, indices, indptr, fill) of a sparse matrix; the caller keeps it.
std::unique_ptr<Walker> make_walker(const py::object& X, bool has_missing, bool has_categories,
                                    std::size_t n_features) {
    const py::object first = py::isinstance<py::tuple>(X) ? py::object(X.cast<py::tuple>()[0]) : X;
    if (py::isinstance<py::array_t<float>>(first))
        return make_walker_for<float>(X, has_missing, has_categories, n_features);
    return make_walker_for<double>(X, has_missing, has_categories, n_features);
}

// Numbers of a tree's nodes in its arrays, by place.
std::vector<std::int32_t> list_originals(const Structure& tree) {
    std::vector<std::int32_t> original(tree.n_nodes());
    for (std::size_t k = 0; k < original.size(); ++k) original[tree.place[k]] = static_cast<std::int32_t>(k);
    return original;
}

void bind_find_leaves(const Forest& forest, const py::object& X, bool has_missing, std::size_t n_features,
                      const Array<std::int64_t>& index, const Array<std::int64_t>& offset, std::size_t n_threads,
                      Array<std::int32_t>& leaves) {
    constexpr std::size_t kRows = 4096;
    const auto walker = make_walker(X, has_missing, forest.has_categories(), n_features);
    const std::int64_t *rows = index.data(), *start = offset.data();
    std::int32_t* out = leaves.mutable_data();
    const Work work;
    Crew crew(n_threads, run_signal_handlers);
    std::size_t t = 0;
    for (const Source& tree : forest.trees()) {
        walker->pack(tree);
        const auto original = list_originals(walker->structure());
        const auto begin = static_cast<std::size_t>(start[t]), end = static_cast<std::size_t>(start[t + 1]);
        ++t;
        crew.run((end - begin + kRows - 1) / kRows, [&](std::size_t, std::size_t item, Pacer& pacer) {
            const std::size_t first = begin + item * kRows, n = std::min(kRows, end - first);
            walker->find(rows + first, n, pacer, out + first);
            for (std::size_t i = first; i < first + n; ++i) {
                out[i] = original[out[i]] + static_cast<std::int32_t>(tree.first);
            }
        });
    }
}

void bind_find_swapped_leaves(const Forest& forest, const py::object& X, bool has_missing, std::size_t n_features,
                              const Array<std::int64_t>& index, const Array<std::int64_t>& donors,
                              Array<std::int32_t>& leaves) {
    const auto walker = make_walker(X, has_missing, forest.has_categories(), n_features);
    const auto n = static_cast<std::size_t>(index.size());
    const std::int64_t *rows = index.data(), *from = donors.data();
    std::int32_t* out = leaves.mutable_data();
    const Work work;
    Pacer pacer(run_signal_handlers);
    walker->pack(forest.trees()[0]);
    const auto original = list_originals(walker->structure());
    walker->find_swapped(rows, from, n, pacer, out);
    for (std::size_t i = 0; i < n * n_features; ++i) out[i] = original[out[i]];
}

template <class Index>
std::size_t bind_list_unseen(const Array<Index>& bag, Array<std::int64_t>& unseen) {
    const Index* drawn = bag.data();
    std::int64_t* out = unseen.mutable_data();
    const auto n_drawn = static_cast<std::size_t>(bag.size());
    std::vector<char> is_seen(static_cast<std::size_t>(unseen.size()), 0);
    const Work work;
    for (std::size_t i = 0; i < n_drawn; ++i) is_seen.at(static_cast<std::size_t>(drawn[i])) = 1;
    std::size_t n_unseen = 0;
    for (std::size_t row = 0; row < is_seen.size(); ++row) {
        if (!is_seen[row]) out[n_unseen++] = static_cast<std::int64_t>(row);
    }
    return n_unseen;
}

Array<std::int64_t> bind_draw_bag(std::uint32_t seed, std::size_t n_draws, std::size_t n_rows) {
    Array<std::int64_t> bag(static_cast<py::ssize_t>(n_draws));
    std::int64_t* next = bag.mutable_data();
    const Work work;
    draw_bag(seed, n_draws, n_rows, [&](std::size_t row) { *next++ = static_cast<std::int64_t>(row); });
    return bag;
}

// Sums at the nodes in the order of the arrays; `sums` are zeros.
void bind_sum_leaves(const Forest& forest, const Array<std::int32_t>& leaves, const Array<std::int64_t>& index,
                     const Array<std::int64_t>& offset, const TargetArrays& arrays,
                     const std::optional<Array<std::int32_t>>& column, Array<double>& sums) {
    const Target target = arrays.view();
    const std::size_t width = target.n_sums();
    const std::int64_t* start = offset.data();
    const std::int32_t *of_tree = data_or_null(column), *found = leaves.data();
    const std::int64_t* rows = index.data();
    double* out = sums.mutable_data();
    const Work work;
    Pacer pacer(run_signal_handlers);
    std::vector<std::int32_t> own;
    std::vector<double> chunk;
    std::size_t t = 0;
    for (const Source& tree : forest.trees()) {
        const auto begin = static_cast<std::size_t>(start[t]), end = static_cast<std::size_t>(start[t + 1]);
        own.assign(found + begin, found + end);
        for (std::int32_t& leaf : own) leaf -= static_cast<std::int32_t>(tree.first);
        double* here = out + static_cast<std::size_t>(tree.first) * width;
        sum_rows(target, of_tree ? of_tree[t] : 0, own.data(), rows + begin, own.size(), tree.n_nodes, pacer, chunk,
                 here);
        for (std::size_t m = tree.n_nodes; m-- > 0;) {
            const std::int64_t left = tree.left.integer(m), right = tree.right.integer(m);
            if (left < 0) continue;
            const double *from_left = out + static_cast<std::size_t>(left) * width,
                         *from_right = out + static_cast<std::size_t>(right) * width;
            for (std::size_t c = 0; c < width; ++c) here[m * width + c] = from_left[c] + from_right[c];
        }
        ++t;
    }
}

void bind_climb(const Array<std::int64_t>& parent, const Array<std::int32_t>& feature,
                const Array<std::int32_t>& leaves, const Array<std::int64_t>& index, const Array<std::int64_t>& offset,
                const Array<double>& weight, const TargetArrays& arrays,
                const std::optional<Array<std::int32_t>>& column, const Array<double>& linear,
                const std::optional<Array<double>>& square, const std::optional<Array<double>>& constant,
                Array<double>& out) {
    const Target target = arrays.view();
    const NodeTerms terms{linear.data(), data_or_null(square), data_or_null(constant)};
    const auto n_features = static_cast<std::size_t>(out.shape(1));
    const std::int32_t* of_tree = data_or_null(column);
    double* sums = out.mutable_data();
    const Work work;
    Pacer pacer(run_signal_handlers);
    Climber climber(parent.data(), feature.data(), target, terms, n_features);
    for (py::ssize_t t = 0; t + 1 < offset.size(); ++t) {
        for (std::int64_t i = offset.data()[t]; i < offset.data()[t + 1]; ++i) {
            climber.add(leaves.data()[i], index.data()[i], weight.data()[i], of_tree ? of_tree[t] : 0, sums);
            pacer.count(static_cast<std::int64_t>(climber.path_length()));
        }
    }
}

// The rows of each tree: None (all rows), an array of seeds with a number of draws, a list of bags, or a list of
// (rows, weights where they score, weights where they grew the tree).
std::vector<TreeRows> read_rows(const py::object& rows, std::size_t n_trees) {
    std::vector<TreeRows> read(n_trees);
    if (rows.is_none()) return read;
    if (py::isinstance<py::tuple>(rows)) {
        const auto parts = rows.cast<py::tuple>();
        const auto seeds = parts[0].cast<Array<std::uint32_t>>();
        for (std::size_t t = 0; t < n_trees; ++t) {
            read[t].kind = TreeRows::Kind::kSeed;
            read[t].seed = seeds.at(static_cast<py::ssize_t>(t));
            read[t].n_draws = parts[1].cast<std::size_t>();
        }
        return read;
    }
    const auto lists = rows.cast<py::list>();
    for (std::size_t t = 0; t < n_trees; ++t) {
        const py::object of_tree = lists[t];
        const bool is_bag = !py::isinstance<py::tuple>(of_tree);
        const py::object listed = is_bag ? of_tree : py::object(of_tree.cast<py::tuple>()[0]);
        const auto index = listed.cast<Array<std::int64_t>>();
        read[t].kind = is_bag ? TreeRows::Kind::kBag : TreeRows::Kind::kList;
        read[t].listed = index.data();
        read[t].n_listed = static_cast<std::size_t>(index.size());
        if (is_bag) continue;
        const auto parts = of_tree.cast<py::tuple>();
        if (!parts[1].is_none()) read[t].unseen_weight = parts[1].cast<Array<double>>().data();
        if (!parts[2].is_none()) read[t].training_weight = parts[2].cast<Array<double>>().data();
    }
    return read;
}

void bind_score(const Forest& forest, const py::object& X, bool has_missing, std::size_t n_rows, std::size_t n_features,
                const py::object& rows, const TargetArrays& target, const Array<double>& origin,
                const std::optional<Array<std::int32_t>>& column, const std::optional<Array<double>>& tree_weight,
                const std::string& formula, bool skips, double scale, bool is_additive, std::size_t n_threads,
                Array<double>& scores, Array<double>& mdi, Array<double>& counted_mdi, Array<double>& split_weight,
                Array<double>& skipped_weight, Array<double>& unseen_weight, Array<double>& unseen_impurity,
                std::optional<Array<double>>& phi, std::optional<Array<double>>& psi, std::optional<Array<float>>& bags,
                std::int64_t first) {
    Call call;
    call.trees = forest.trees();
    call.rows = read_rows(rows, call.trees.size());
    call.column.assign(call.trees.size(), 0);
    if (column) call.column.assign(column->data(), column->data() + column->size());
    call.tree_weight = data_or_null(tree_weight);
    call.n_rows = n_rows;
    call.n_features = n_features;
    call.target = target.view();
    if (forest.n_columns() != call.target.n_columns) throw BrokenTree("the trees have another target.");
    call.target.has_squares = call.target.has_squares && !is_additive;
    call.origin = origin.data();
    const Formula chosen = formula == "ufi"            ? Formula::kUfi
                           : formula == "ufi_centered" ? Formula::kUfiCentered
                                                       : Formula::kMdiOob;
    call.rule = {chosen, skips, scale, is_additive};
    call.scores = scores.mutable_data();
    call.mdi = mdi.mutable_data();
    call.counted_mdi = counted_mdi.mutable_data();
    call.split_weight = split_weight.mutable_data();
    call.skipped_weight = skipped_weight.mutable_data();
    call.unseen_weight = unseen_weight.mutable_data();
    call.unseen_impurity = unseen_impurity.mutable_data();
    if (phi) {
        call.contributions = {phi->mutable_data(),
                              psi ? psi->mutable_data() : nullptr,
                              bags ? bags->mutable_data() : nullptr,
                              bags ? static_cast<std::size_t>(bags->shape(0)) : 0,
                              first,
                              static_cast<std::size_t>(phi->shape(0))};
    }
    const auto walker = make_walker(X, has_missing, forest.has_categories(), n_features);
    const Work work;
    Crew crew(n_threads, run_signal_handlers);
    Scoring(call, *walker, crew).run();
}

void bind_sum_row_products(const Array<double>& phi, const std::optional<Array<double>>& psi,
                           const Array<bool>& is_scoring, double total_weight, const Array<double>& mean,
                           const std::optional<Array<float>>& bags, std::size_t n_threads, Array<double>& products,
                           Array<double>& totals, Array<double>& K, Array<double>& L, Array<double>& d_d) {
    const auto n_columns = static_cast<std::size_t>(phi.shape(1));
    double* by_column = products.mutable_data();
    const ProductsCall call{static_cast<std::size_t>(phi.shape(0)),
                            n_columns,
                            phi.data(),
                            data_or_null(psi),
                            is_scoring.data(),
                            total_weight,
                            mean.data(),
                            bags ? static_cast<std::size_t>(bags->shape(0)) : 0,
                            data_or_null(bags),
                            by_column,
                            by_column + n_columns,
                            by_column + 2 * n_columns,
                            totals.mutable_data(),
                            K.mutable_data(),
                            L.mutable_data(),
                            d_d.mutable_data()};
    const Work work;
    Crew crew(n_threads, run_signal_handlers);
    sum_row_products(call, crew);
}

}  // namespace

PYBIND11_MODULE(_kernel, module) {
    py::module_::import("atexit").attr("register")(py::cpp_function(wait_for_threads));
    const auto os = py::module_::import("os");
    if (py::hasattr(os, "register_at_fork")) {  // a child has none of the threads of its parent
        os.attr("register_at_fork")(py::arg("after_in_child") = py::cpp_function([] { n_working = 0; }));
    }
    py::register_exception<BrokenTree>(module, "BrokenTreeError", PyExc_ValueError);
    py::class_<Forest>(module, "Forest")
        .def_static("of_ensemble", &Forest::of_ensemble, py::arg("feature").noconvert(),
                    py::arg("threshold").noconvert(), py::arg("left").noconvert(), py::arg("right").noconvert(),
                    py::arg("missing_left").noconvert(), py::arg("weight").noconvert(), py::arg("value").noconvert(),
                    py::arg("offset").noconvert(), py::arg("node_set").noconvert().none(true),
                    py::arg("set_offset").noconvert().none(true), py::arg("bits").noconvert().none(true))
        .def_static("of_trees", &Forest::of_trees, py::arg("trees"));
    py::class_<TargetArrays>(module, "Target")
        .def(py::init<std::optional<Array<std::int32_t>>, std::optional<Array<double>>, Array<std::int64_t>,
                      std::optional<Array<double>>>(),
             py::arg("codes").noconvert().none(true), py::arg("numbers").noconvert().none(true),
             py::arg("columns").noconvert(), py::arg("row_weight").noconvert().none(true));
    module.def("find_leaves", &bind_find_leaves, py::arg("forest"), py::arg("X"), py::arg("has_missing"),
               py::arg("n_features"), py::arg("index").noconvert(), py::arg("offset").noconvert(), py::arg("n_threads"),
               py::arg("leaves").noconvert());
    module.def("find_swapped_leaves", &bind_find_swapped_leaves, py::arg("forest"), py::arg("X"),
               py::arg("has_missing"), py::arg("n_features"), py::arg("index").noconvert(),
               py::arg("donors").noconvert(), py::arg("leaves").noconvert());
    module.def("list_unseen", &bind_list_unseen<std::int32_t>, py::arg("bag").noconvert(),
               py::arg("unseen").noconvert());
    module.def("list_unseen", &bind_list_unseen<std::int64_t>, py::arg("bag").noconvert(),
               py::arg("unseen").noconvert());
    module.def("draw_bag", &bind_draw_bag, py::arg("seed"), py::arg("n_draws"), py::arg("n_rows"));
    module.def("sum_leaves", &bind_sum_leaves, py::arg("forest"), py::arg("leaves").noconvert(),
               py::arg("index").noconvert(), py::arg("offset").noconvert(), py::arg("target"),
               py::arg("column").noconvert().none(true), py::arg("sums").noconvert());
    module.def("climb", &bind_climb, py::arg("parent").noconvert(), py::arg("feature").noconvert(),
               py::arg("leaves").noconvert(), py::arg("index").noconvert(), py::arg("offset").noconvert(),
               py::arg("weight").noconvert(), py::arg("target"), py::arg("column").noconvert().none(true),
               py::arg("linear").noconvert(), py::arg("square").noconvert().none(true),
               py::arg("constant").noconvert().none(true), py::arg("out").noconvert());
    module.def("score", &bind_score, py::arg("forest"), py::arg("X"), py::arg("has_missing"), py::arg("n_rows"),
               py::arg("n_features"), py::arg("rows"), py::arg("target"), py::arg("origin").noconvert(),
               py::arg("column").noconvert().none(true), py::arg("tree_weight").noconvert().none(true),
               py::arg("formula"), py::arg("skips"), py::arg("scale"), py::arg("is_additive"), py::arg("n_threads"),
               py::arg("scores").noconvert(), py::arg("mdi").noconvert(), py::arg("counted_mdi").noconvert(),
               py::arg("split_weight").noconvert(), py::arg("skipped_weight").noconvert(),
               py::arg("unseen_weight").noconvert(), py::arg("unseen_impurity").noconvert(),
               py::arg("phi").noconvert().none(true), py::arg("psi").noconvert().none(true),
               py::arg("bags").noconvert().none(true), py::arg("first"));
    module.def("sum_row_products", &bind_sum_row_products, py::arg("phi").noconvert(),
               py::arg("psi").noconvert().none(true), py::arg("is_scoring").noconvert(), py::arg("total_weight"),
               py::arg("mean").noconvert(), py::arg("bags").noconvert().none(true), py::arg("n_threads"),
               py::arg("products").noconvert(), py::arg("totals").noconvert(), py::arg("K").noconvert(),
               py::arg("L").noconvert(), py::arg("d_d").noconvert());
}
