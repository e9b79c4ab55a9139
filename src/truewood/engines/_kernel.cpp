// The Python face of the kernel: unwraps arrays, releases the GIL, calls. Arrays are taken as they are, never
// converted.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <vector>

#include "climb.hpp"
#include "python_arrays.hpp"
#include "python_work.hpp"
#include "row_products.hpp"
#include "score_bindings.hpp"

namespace py = pybind11;
using namespace truewood;

namespace {

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

// Adds to `out`, which has n_groups times n_columns numbers a row, what unseen rows lose without each group in each
// tree, times the weight of the tree; `own` is what the tree says of them with it.
void bind_project_out(const Forest& forest, const py::object& X, bool has_missing, std::size_t n_features,
                      const Array<std::int64_t>& grown, const Array<std::int64_t>& grown_offset,
                      const Array<double>& grown_weight, const Array<std::int64_t>& unseen,
                      const Array<std::int64_t>& unseen_offset, const Array<double>& own,
                      const Array<double>& tree_weight, const TargetArrays& arrays, const Array<std::int32_t>& group_of,
                      std::size_t n_threads, Array<double>& out) {
    const Target target = arrays.view();
    const auto n_groups = static_cast<std::size_t>(out.shape(1)), n_columns = target.n_columns;
    const std::int64_t *grown_start = grown_offset.data(), *unseen_start = unseen_offset.data();
    const double *before = own.data(), *weight_of_tree = tree_weight.data();
    const std::int64_t* row = unseen.data();
    double* sums = out.mutable_data();
    std::vector<std::unique_ptr<Walker>> walkers;
    walkers.push_back(make_walker(X, has_missing, forest.has_categories(), n_features));
    const std::int32_t* group = group_of.data();
    const std::int64_t* grew = grown.data();
    const double* weight_in_bag = grown_weight.data();
    const Work work;
    Crew crew(n_threads, run_signal_handlers);
    while (walkers.size() < crew.n_threads()) walkers.push_back(walkers[0]->copy());
    std::vector<Projected> found(crew.n_threads());
    InOrder<Projected> in_order(crew.n_threads());
    crew.run(forest.trees().size(), [&](std::size_t w, std::size_t t, Pacer& pacer) {
        const ProjectionCall call{group,
                                  grew + grown_start[t],
                                  weight_in_bag + grown_start[t],
                                  static_cast<std::size_t>(grown_start[t + 1] - grown_start[t]),
                                  row + unseen_start[t],
                                  static_cast<std::size_t>(unseen_start[t + 1] - unseen_start[t]),
                                  target};
        found[w].clear();
        found[w].tree = t;
        walkers[w]->pack(forest.trees()[t]);
        walkers[w]->project(call, pacer, found[w]);
        in_order.add(t, found[w], pacer, [&](const Projected& part) {
            const double weight = weight_of_tree[part.tree];
            for (std::size_t k = 0; k < part.place.size(); ++k) {
                const std::size_t at = static_cast<std::size_t>(unseen_start[part.tree]) + part.place[k];
                const auto place = static_cast<std::size_t>(row[at]) * n_groups + part.group[k];
                double* into = sums + place * n_columns;
                for (std::size_t c = 0; c < n_columns; ++c) {
                    into[c] += weight * (part.mean[k * n_columns + c] - before[at * n_columns + c]);
                }
            }
        });
    });
}

template <class Index>
std::size_t bind_list_unseen(const Array<Index>& bag, Array<std::int64_t>& unseen) {
    const Index* drawn = bag.data();
    std::int64_t* out = unseen.mutable_data();
    const auto n_drawn = static_cast<std::size_t>(bag.size());
    std::vector<Counts> counts(static_cast<std::size_t>(unseen.size()), 0);
    const Work work;
    for (std::size_t i = 0; i < n_drawn; ++i) count_drawn(static_cast<std::size_t>(drawn[i]), counts);
    return list_unseen(counts, out);
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
                            by_column + 3 * n_columns,
                            totals.mutable_data(),
                            K.mutable_data(),
                            L.mutable_data(),
                            d_d.mutable_data()};
    const Work work;
    Crew crew(n_threads, run_signal_handlers);
    sum_row_products(call, crew);
}

}  // namespace

PYBIND11_MODULE(_kernel, module, py::mod_gil_not_used()) {
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
    module.def("project_out", &bind_project_out, py::arg("forest"), py::arg("X"), py::arg("has_missing"),
               py::arg("n_features"), py::arg("grown").noconvert(), py::arg("grown_offset").noconvert(),
               py::arg("grown_weight").noconvert(), py::arg("unseen").noconvert(), py::arg("unseen_offset").noconvert(),
               py::arg("own").noconvert(), py::arg("tree_weight").noconvert(), py::arg("target"),
               py::arg("group_of").noconvert(), py::arg("n_threads"), py::arg("out").noconvert());
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
               py::arg("largest").noconvert(), py::arg("column").noconvert().none(true),
               py::arg("tree_weight").noconvert().none(true), py::arg("formula"), py::arg("skips"), py::arg("scale"),
               py::arg("is_additive"), py::arg("n_threads"), py::arg("scores").noconvert(), py::arg("mdi").noconvert(),
               py::arg("counted_mdi").noconvert(), py::arg("magnitude").noconvert(),
               py::arg("split_weight").noconvert(), py::arg("skipped_weight").noconvert(),
               py::arg("unseen_weight").noconvert(), py::arg("unseen_impurity").noconvert(),
               py::arg("phi").noconvert().none(true), py::arg("psi").noconvert().none(true),
               py::arg("bags").noconvert().none(true), py::arg("first"));
    module.def("lay_out", &bind_lay_out, py::arg("forest"), py::arg("n_features"), py::arg("n_threads"),
               py::arg("nodes").noconvert(), py::arg("place").noconvert());
    module.def("score_sums", &bind_score_sums, py::arg("forest"), py::arg("n_features"), py::arg("target"),
               py::arg("origin").noconvert(), py::arg("largest").noconvert(), py::arg("formula"), py::arg("skips"),
               py::arg("scale"), py::arg("is_additive"), py::arg("n_threads"), py::arg("leaf_sums").noconvert(),
               py::arg("n_roles"), py::arg("terms").noconvert().none(true), py::arg("scores").noconvert(),
               py::arg("mdi").noconvert(), py::arg("counted_mdi").noconvert(), py::arg("magnitude").noconvert(),
               py::arg("split_weight").noconvert(), py::arg("skipped_weight").noconvert(),
               py::arg("unseen_weight").noconvert(), py::arg("unseen_impurity").noconvert());
    module.def("sum_nodes", &bind_sum_nodes, py::arg("forest"), py::arg("X"), py::arg("has_missing"), py::arg("n_rows"),
               py::arg("n_features"), py::arg("target"), py::arg("origin").noconvert(),
               py::arg("column").noconvert().none(true), py::arg("n_threads"), py::arg("sums").noconvert());
    module.def("contribute", &bind_contribute, py::arg("forest"), py::arg("X"), py::arg("has_missing"),
               py::arg("n_features"), py::arg("target"), py::arg("origin").noconvert(),
               py::arg("column").noconvert().none(true), py::arg("tree_weight").noconvert().none(true),
               py::arg("linear").noconvert(), py::arg("square").noconvert().none(true),
               py::arg("constant").noconvert().none(true), py::arg("n_threads"), py::arg("phi").noconvert());
    module.def("sum_row_products", &bind_sum_row_products, py::arg("phi").noconvert(),
               py::arg("psi").noconvert().none(true), py::arg("is_scoring").noconvert(), py::arg("total_weight"),
               py::arg("mean").noconvert(), py::arg("bags").noconvert().none(true), py::arg("n_threads"),
               py::arg("products").noconvert(), py::arg("totals").noconvert(), py::arg("K").noconvert(),
               py::arg("L").noconvert(), py::arg("d_d").noconvert());
}
