// The Python face of the kernel: checks arrays and takes them as they are, releases the GIL, checks what row and node
// numbers point at, calls. An argument that does not fit is a TypeError or ValueError that names it.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <memory>
#include <string>
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
                      const py::object& index, const py::object& offset, std::size_t n_threads,
                      const py::object& leaves) {
    constexpr std::size_t kRows = 4096;
    forest.must_be_ensemble();
    const Table table = read_table(X, has_missing, forest.has_categories(), n_features);
    const auto lists = RowLists::read("index", index, offset, forest.n_trees());
    const auto out = write_array<std::int32_t>("leaves", leaves, {lists.index.size()});
    const Work work;
    lists.check("index", table.n_rows);
    Crew crew(n_threads, run_signal_handlers);
    Walker& walker = *table.walker;
    for (std::size_t t = 0; t < forest.n_trees(); ++t) {
        const Source& tree = forest.trees()[t];
        walker.pack(tree);
        const auto original = list_originals(walker.structure());
        const std::size_t begin = lists.begin(t), end = lists.end(t);
        crew.run((end - begin + kRows - 1) / kRows, [&](std::size_t, std::size_t item, Pacer& pacer) {
            const std::size_t first = begin + item * kRows, n = std::min(kRows, end - first);
            walker.find(lists.index.data + first, n, pacer, out.data + first);
            for (std::size_t i = first; i < first + n; ++i) {
                out.data[i] = original[out.data[i]] + static_cast<std::int32_t>(tree.first);
            }
        });
    }
}

void bind_find_swapped_leaves(const Forest& forest, const py::object& X, bool has_missing, std::size_t n_features,
                              const py::object& index, const py::object& donors, const py::object& leaves) {
    if (forest.n_trees() != 1) {
        throw py::value_error(refuse("forest", "be one tree", std::to_string(forest.n_trees())));
    }
    const Table table = read_table(X, has_missing, forest.has_categories(), n_features);
    const auto rows = read_array<std::int64_t>("index", index, {kAny});
    const std::size_t n = rows.size();
    const auto from = read_array<std::int64_t>("donors", donors, {n});
    const auto out = write_array<std::int32_t>("leaves", leaves, {n, n_features});
    const Work work;
    check_below("index", rows.data, n, table.n_rows);
    check_below("donors", from.data, n, table.n_rows);
    Pacer pacer(run_signal_handlers);
    table.walker->pack(forest.trees()[0]);
    const auto original = list_originals(table.walker->structure());
    table.walker->find_swapped(rows.data, from.data, n, pacer, out.data);
    for (std::size_t i = 0; i < n * n_features; ++i) out.data[i] = original[out.data[i]];
}

// Adds to `out`, which has n_groups times n_columns numbers a row, what unseen rows lose without each group in each
// tree, times the weight of the tree; `own` is what the tree says of them with it.
void bind_project_out(const Forest& forest, const py::object& X, bool has_missing, std::size_t n_features,
                      const py::object& grown, const py::object& grown_offset, const py::object& grown_weight,
                      const py::object& unseen, const py::object& unseen_offset, const py::object& own,
                      const py::object& tree_weight, const TargetArrays& arrays, const py::object& group_of,
                      std::size_t n_threads, const py::object& out) {
    const Table table = read_table(X, has_missing, forest.has_categories(), n_features);
    const Target target = arrays.view(table.n_rows);
    const std::size_t n_columns = target.n_columns;
    const auto training = RowLists::read("grown", grown, grown_offset, forest.n_trees());
    const auto scoring = RowLists::read("unseen", unseen, unseen_offset, forest.n_trees());
    const auto weight_in_bag = read_array<double>("grown_weight", grown_weight, {training.index.size()});
    const auto before = read_array<double>("own", own, {scoring.index.size(), n_columns});
    const auto weight_of_tree = read_array<double>("tree_weight", tree_weight, {forest.n_trees()});
    const auto group = read_array<std::int32_t>("group_of", group_of, {n_features});
    const auto sums = write_array<double>("out", out, {table.n_rows, kAny, n_columns});
    const std::size_t n_groups = sums.shape[1];
    const Work work;
    training.check("grown", table.n_rows);
    scoring.check("unseen", table.n_rows);
    for (std::size_t j = 0; j < n_features; ++j) {
        if (group.data[j] >= 0) check_below("group_of", group.data + j, 1, n_groups);
    }
    Crew crew(n_threads, run_signal_handlers);
    std::vector<std::unique_ptr<Walker>> walkers;
    while (walkers.size() < crew.n_threads()) walkers.push_back(table.walker->copy());
    std::vector<Projected> found(crew.n_threads());
    InOrder<Projected> in_order(crew.n_threads());
    crew.run(forest.n_trees(), [&](std::size_t w, std::size_t t, Pacer& pacer) {
        const ProjectionCall call{group.data,
                                  training.index.data + training.begin(t),
                                  weight_in_bag.data + training.begin(t),
                                  training.end(t) - training.begin(t),
                                  scoring.index.data + scoring.begin(t),
                                  scoring.end(t) - scoring.begin(t),
                                  target};
        found[w].clear();
        found[w].tree = t;
        walkers[w]->pack(forest.trees()[t]);
        walkers[w]->project(call, pacer, found[w]);
        in_order.add(t, found[w], pacer, [&](const Projected& part) {
            const double weight = weight_of_tree.data[part.tree];
            for (std::size_t k = 0; k < part.place.size(); ++k) {
                const std::size_t at = scoring.begin(part.tree) + part.place[k];
                const auto row = static_cast<std::size_t>(scoring.index.data[at]);
                double* into = sums.data + (row * n_groups + static_cast<std::size_t>(part.group[k])) * n_columns;
                for (std::size_t c = 0; c < n_columns; ++c) {
                    into[c] += weight * (part.mean[k * n_columns + c] - before.data[at * n_columns + c]);
                }
            }
        });
    });
}

template <class Index>
std::size_t list_unseen_of(const View<const Index>& bag, const View<std::int64_t>& unseen) {
    const Work work;
    std::vector<Counts> counts(unseen.size(), 0);
    for (std::size_t i = 0; i < bag.size(); ++i) count_drawn(static_cast<std::size_t>(bag.data[i]), counts);
    return list_unseen(counts, unseen.data);
}

std::size_t bind_list_unseen(const py::object& bag, const py::object& unseen) {
    const auto out = write_array<std::int64_t>("unseen", unseen, {kAny});
    if (has_type<std::int32_t>(bag)) return list_unseen_of(read_array<std::int32_t>("bag", bag, {kAny}), out);
    return list_unseen_of(read_array<std::int64_t>("bag", bag, {kAny}), out);
}

py::array_t<std::int64_t> bind_draw_bag(std::uint32_t seed, std::size_t n_draws, std::size_t n_rows) {
    py::array_t<std::int64_t> bag(static_cast<py::ssize_t>(n_draws));
    std::int64_t* next = bag.mutable_data();
    const Work work;
    draw_bag(seed, n_draws, n_rows, [&](std::size_t row) { *next++ = static_cast<std::int64_t>(row); });
    return bag;
}

// Sums at the nodes in the order of the arrays; `sums` are zeros.
void bind_sum_leaves(const Forest& forest, const py::object& leaves, const py::object& index, const py::object& offset,
                     const TargetArrays& arrays, const py::object& column, const py::object& sums) {
    forest.must_be_ensemble();
    const Target target = arrays.view();
    const std::size_t width = target.n_sums();
    const auto lists = RowLists::read("index", index, offset, forest.n_trees());
    const auto found = read_array<std::int32_t>("leaves", leaves, {lists.index.size()});
    const auto columns = read_columns(column, forest.n_trees(), target);
    const auto out = write_array<double>("sums", sums, {forest.n_nodes(), width});
    const Work work;
    lists.check("index", arrays.n_rows());
    check_below("leaves", found.data, found.size(), forest.n_nodes());
    arrays.check_codes();
    Pacer pacer(run_signal_handlers);
    std::vector<std::int32_t> own;
    std::vector<double> chunk;
    for (std::size_t t = 0; t < forest.n_trees(); ++t) {
        const Source& tree = forest.trees()[t];
        own.assign(found.data + lists.begin(t), found.data + lists.end(t));
        for (std::int32_t& leaf : own) leaf = static_cast<std::int32_t>(leaf - tree.first);
        check_below("leaves, less the tree's root,", own.data(), own.size(), tree.n_nodes);
        double* here = out.data + static_cast<std::size_t>(tree.first) * width;
        sum_rows(target, columns[t], own.data(), lists.index.data + lists.begin(t), own.size(), tree.n_nodes, pacer,
                 chunk, here);
        for (std::size_t m = tree.n_nodes; m-- > 0;) {
            const std::int64_t left = tree.left.integer(m), right = tree.right.integer(m);
            if (left < 0 && right < 0) continue;
            for (const std::int64_t child : {left - tree.first, right - tree.first}) {
                if (child <= static_cast<std::int64_t>(m) || child >= static_cast<std::int64_t>(tree.n_nodes)) {
                    throw BrokenTree("children must be nodes of the tree after their parent.");
                }
            }
            const double *from_left = out.data + static_cast<std::size_t>(left) * width,
                         *from_right = out.data + static_cast<std::size_t>(right) * width;
            for (std::size_t c = 0; c < width; ++c) here[m * width + c] = from_left[c] + from_right[c];
        }
    }
}

// Refuses nodes whose path does not lead to a root by splits on columns.
void check_paths(const View<const std::int64_t>& parent, const View<const std::int32_t>& feature,
                 std::size_t n_features) {
    for (std::size_t k = 0; k < parent.size(); ++k) {
        const std::int64_t above = parent.data[k];
        if (above < 0 || above > static_cast<std::int64_t>(k)) throw BrokenTree("parents must come before children.");
        if (above < static_cast<std::int64_t>(k)) check_below("feature", feature.data + above, 1, n_features);
    }
}

void bind_climb(const py::object& parent, const py::object& feature, const py::object& leaves, const py::object& index,
                const py::object& offset, const py::object& weight, const TargetArrays& arrays,
                const py::object& column, const py::object& linear, const py::object& square,
                const py::object& constant, const py::object& out) {
    const auto sums = write_array<double>("out", out, {kAny, kAny});
    const std::size_t n_rows = sums.shape[0], n_features = sums.shape[1];
    const Target target = arrays.view();
    const auto above = read_array<std::int64_t>("parent", parent, {kAny});
    const auto features = read_array<std::int32_t>("feature", feature, {above.size()});
    const auto bounds = read_array<std::int64_t>("offset", offset, {kAny});
    const std::size_t n_trees = std::max<std::size_t>(bounds.size(), 1) - 1;
    const auto lists = RowLists::read("index", index, offset, n_trees);
    const auto found = read_array<std::int32_t>("leaves", leaves, {lists.index.size()});
    const auto weights = read_array<double>("weight", weight, {lists.index.size()});
    const auto columns = read_columns(column, n_trees, target);
    const Terms terms(linear, square, constant, above.size(), target);
    const Work work;
    arrays.check_rows(n_rows);
    arrays.check_codes();
    lists.check("index", n_rows);
    check_below("leaves", found.data, found.size(), above.size());
    check_paths(above, features, n_features);
    Pacer pacer(run_signal_handlers);
    Climber climber(above.data, features.data, target, terms.view(), n_features);
    for (std::size_t t = 0; t < n_trees; ++t) {
        for (std::size_t i = lists.begin(t); i < lists.end(t); ++i) {
            climber.add(found.data[i], lists.index.data[i], weights.data[i], columns[t], sums.data);
            pacer.count(static_cast<std::int64_t>(climber.path_length()));
        }
    }
}

void bind_sum_row_products(const py::object& phi, const py::object& psi, const py::object& is_scoring,
                           double total_weight, const py::object& mean, const py::object& bags, std::size_t n_threads,
                           const py::object& products, const py::object& totals, const py::object& K,
                           const py::object& L, const py::object& d_d) {
    const auto unseen = read_array<double>("phi", phi, {kAny, kAny});
    const std::size_t n_rows = unseen.shape[0], n_columns = unseen.shape[1];
    const auto training = read_optional<double>("psi", psi, {n_rows, n_columns});
    const auto scoring = read_array<bool>("is_scoring", is_scoring, {n_rows});
    const auto means = read_array<double>("mean", mean, {n_columns});
    const auto weights = read_optional<float>("bags", bags, {kAny, n_rows});
    const std::size_t n_bags = weights ? weights.shape[0] : 0;
    if (n_bags > 0 && !training) throw py::value_error("psi must be given with bags, got None.");
    const auto by_column = write_array<double>("products", products, {4, n_columns});
    const auto of_all = write_array<double>("totals", totals, {3});
    const auto of_phi = write_array<double>("K", K, {n_bags, n_columns});
    const auto of_psi = write_array<double>("L", L, {n_bags, n_columns});
    const auto squares = write_array<double>("d_d", d_d, {n_bags});
    const ProductsCall call{n_rows,
                            n_columns,
                            unseen.data,
                            training.data,
                            reinterpret_cast<const std::uint8_t*>(scoring.data),
                            total_weight,
                            means.data,
                            n_bags,
                            weights.data,
                            by_column.data,
                            by_column.data + n_columns,
                            by_column.data + 2 * n_columns,
                            by_column.data + 3 * n_columns,
                            of_all.data,
                            of_phi.data,
                            of_psi.data,
                            squares.data};
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
        .def_static("of_ensemble", &Forest::of_ensemble, py::arg("feature"), py::arg("threshold"), py::arg("left"),
                    py::arg("right"), py::arg("missing_left"), py::arg("weight"), py::arg("value"), py::arg("offset"),
                    py::arg("node_set"), py::arg("set_offset"), py::arg("bits"))
        .def_static("of_trees", &Forest::of_trees, py::arg("trees"));
    py::class_<TargetArrays>(module, "Target")
        .def(py::init<const py::object&, const py::object&, const py::object&, const py::object&>(), py::arg("codes"),
             py::arg("numbers"), py::arg("columns"), py::arg("row_weight"));
    module.def("find_leaves", &bind_find_leaves, py::arg("forest"), py::arg("X"), py::arg("has_missing"),
               py::arg("n_features"), py::arg("index"), py::arg("offset"), py::arg("n_threads"), py::arg("leaves"));
    module.def("find_swapped_leaves", &bind_find_swapped_leaves, py::arg("forest"), py::arg("X"),
               py::arg("has_missing"), py::arg("n_features"), py::arg("index"), py::arg("donors"), py::arg("leaves"));
    module.def("project_out", &bind_project_out, py::arg("forest"), py::arg("X"), py::arg("has_missing"),
               py::arg("n_features"), py::arg("grown"), py::arg("grown_offset"), py::arg("grown_weight"),
               py::arg("unseen"), py::arg("unseen_offset"), py::arg("own"), py::arg("tree_weight"), py::arg("target"),
               py::arg("group_of"), py::arg("n_threads"), py::arg("out"));
    module.def("list_unseen", &bind_list_unseen, py::arg("bag"), py::arg("unseen"));
    module.def("draw_bag", &bind_draw_bag, py::arg("seed"), py::arg("n_draws"), py::arg("n_rows"));
    module.def("sum_leaves", &bind_sum_leaves, py::arg("forest"), py::arg("leaves"), py::arg("index"),
               py::arg("offset"), py::arg("target"), py::arg("column"), py::arg("sums"));
    module.def("climb", &bind_climb, py::arg("parent"), py::arg("feature"), py::arg("leaves"), py::arg("index"),
               py::arg("offset"), py::arg("weight"), py::arg("target"), py::arg("column"), py::arg("linear"),
               py::arg("square"), py::arg("constant"), py::arg("out"));
    module.def("score", &bind_score, py::arg("forest"), py::arg("X"), py::arg("has_missing"), py::arg("n_rows"),
               py::arg("n_features"), py::arg("rows"), py::arg("target"), py::arg("origin"), py::arg("largest"),
               py::arg("column"), py::arg("tree_weight"), py::arg("formula"), py::arg("skips"), py::arg("scale"),
               py::arg("is_additive"), py::arg("n_threads"), py::arg("scores"), py::arg("mdi"), py::arg("counted_mdi"),
               py::arg("magnitude"), py::arg("split_weight"), py::arg("skipped_weight"), py::arg("unseen_weight"),
               py::arg("unseen_impurity"), py::arg("phi"), py::arg("psi"), py::arg("bags"), py::arg("first"));
    module.def("lay_out", &bind_lay_out, py::arg("forest"), py::arg("n_features"), py::arg("n_threads"),
               py::arg("nodes"), py::arg("place"));
    module.def("score_sums", &bind_score_sums, py::arg("forest"), py::arg("n_features"), py::arg("target"),
               py::arg("origin"), py::arg("largest"), py::arg("formula"), py::arg("skips"), py::arg("scale"),
               py::arg("is_additive"), py::arg("n_threads"), py::arg("leaf_sums"), py::arg("n_roles"), py::arg("terms"),
               py::arg("scores"), py::arg("mdi"), py::arg("counted_mdi"), py::arg("magnitude"), py::arg("split_weight"),
               py::arg("skipped_weight"), py::arg("unseen_weight"), py::arg("unseen_impurity"));
    module.def("sum_nodes", &bind_sum_nodes, py::arg("forest"), py::arg("X"), py::arg("has_missing"), py::arg("n_rows"),
               py::arg("n_features"), py::arg("target"), py::arg("origin"), py::arg("column"), py::arg("n_threads"),
               py::arg("sums"));
    module.def("contribute", &bind_contribute, py::arg("forest"), py::arg("X"), py::arg("has_missing"),
               py::arg("n_features"), py::arg("target"), py::arg("origin"), py::arg("column"), py::arg("tree_weight"),
               py::arg("linear"), py::arg("square"), py::arg("constant"), py::arg("n_threads"), py::arg("phi"));
    module.def("sum_row_products", &bind_sum_row_products, py::arg("phi"), py::arg("psi"), py::arg("is_scoring"),
               py::arg("total_weight"), py::arg("mean"), py::arg("bags"), py::arg("n_threads"), py::arg("products"),
               py::arg("totals"), py::arg("K"), py::arg("L"), py::arg("d_d"));
}
