// Python bindings of the kernel. Each checks its arrays, releases the GIL, checks row and node numbers, and calls the
// kernel. Arrays are used in place. An invalid argument raises a TypeError or ValueError that names it.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "bags.hpp"
#include "node_sums.hpp"
#include "path_influence.hpp"
#include "python_forest.hpp"
#include "python_rows.hpp"
#include "python_target.hpp"
#include "python_work.hpp"
#include "row_matrix.hpp"
#include "row_products.hpp"

namespace py = pybind11;
using namespace truewood;

namespace truewood {

void add_forest_bindings(py::module_& module);  // in forest_bindings.cpp
void add_row_bindings(py::module_& module);     // in row_bindings.cpp

}  // namespace truewood

namespace {

// Position of each node in the tree's arrays, by place.
std::vector<std::int32_t> list_originals(const Structure& tree) {
    std::vector<std::int32_t> original(tree.n_nodes());
    for (std::size_t k = 0; k < original.size(); ++k) original[tree.place[k]] = static_cast<std::int32_t>(k);
    return original;
}

void bind_find_leaves(const Forest& forest, const Table& table, const RowLists& rows, std::size_t n_threads,
                      const py::object& leaves) {
    constexpr std::size_t kRows = 4096;
    forest.must_be_ensemble();
    const auto out = write_array<std::int32_t>("leaves", leaves, {rows.size()});
    const Work work;
    rows.check("rows", forest.n_trees(), table.n_rows());
    ThreadTeam team(n_threads, run_signal_handlers);
    const auto finder = table.rows().make_leaf_finder(forest.has_categories());
    for (std::size_t t = 0; t < forest.n_trees(); ++t) {
        const TreeArrays& tree = forest.trees()[t];
        finder->pack(tree);
        const auto original = list_originals(finder->structure());
        const std::size_t begin = rows.begin(t), end = rows.end(t);
        team.run((end - begin + kRows - 1) / kRows, [&](std::size_t, std::size_t item, InterruptPoller& poller) {
            const std::size_t first = begin + item * kRows, n = std::min(kRows, end - first);
            finder->find(rows.index() + first, n, poller, out.data + first);
            for (std::size_t i = first; i < first + n; ++i) {
                out.data[i] = original[out.data[i]] + static_cast<std::int32_t>(tree.first);
            }
        });
    }
}

void bind_find_swapped_leaves(const Forest& forest, const Table& table, const py::object& index,
                              const py::object& donors, const py::object& leaves) {
    if (forest.n_trees() != 1) {
        throw py::value_error(describe_mismatch("forest", "have one tree", std::to_string(forest.n_trees())));
    }
    const auto rows = read_array<std::int64_t>("index", index, {kAny});
    const std::size_t n = rows.size(), n_features = table.n_features();
    const auto from = read_array<std::int64_t>("donors", donors, {n});
    const auto out = write_array<std::int32_t>("leaves", leaves, {n, n_features});
    const Work work;
    check_below("index", rows.data, n, table.n_rows());
    check_below("donors", from.data, n, table.n_rows());
    InterruptPoller poller(run_signal_handlers);
    const auto finder = table.rows().make_swapped_leaf_finder(forest.has_categories());
    finder->pack(forest.trees()[0]);
    const auto original = list_originals(finder->structure());
    finder->find(rows.data, from.data, n, poller, out.data);
    for (std::size_t i = 0; i < n * n_features; ++i) out.data[i] = original[out.data[i]];
}

// The rows of a Sobol projection, and the predictions for the evaluation rows.
struct ProjectionRows {
    ProjectionRows(const RowLists& in_bag, const py::object& in_bag_weight, const RowLists& evaluation,
                   const py::object& prediction)
        : in_bag(in_bag),
          evaluation(evaluation),
          in_bag_weight(read_array<double>("in_bag_weight", in_bag_weight, {in_bag.size()})),
          prediction(read_array<double>("prediction", prediction, {evaluation.size(), kAny})) {}

    TreeProjectionRows of_tree(std::size_t t) const {
        return {in_bag.index() + in_bag.begin(t), in_bag_weight.data + in_bag.begin(t), in_bag.end(t) - in_bag.begin(t),
                evaluation.index() + evaluation.begin(t), evaluation.end(t) - evaluation.begin(t)};
    }

    RowLists in_bag, evaluation;
    View<const double> in_bag_weight, prediction;
};

// Adds the change in predictions for evaluation rows without each group, times the weight of the tree, to `out`: (row,
// group, column).
void bind_add_sobol_projection(const Forest& forest, const Table& table, const TargetArrays& arrays,
                               const ProjectionRows& rows, const py::object& tree_weight, const py::object& group_of,
                               std::size_t n_threads, const py::object& out) {
    const Target target = arrays.view(table.n_rows());
    const std::size_t n_columns = target.n_columns, n_features = table.n_features();
    const auto weights = read_array<double>("tree_weight", tree_weight, {forest.n_trees()});
    const auto group = read_array<std::int32_t>("group_of", group_of, {n_features});
    const auto sums = write_array<double>("out", out, {table.n_rows(), kAny, n_columns});
    const std::size_t n_groups = sums.shape[1];
    if (forest.n_columns() != n_columns) throw BrokenTree("node values must have one column per target column.");
    if (rows.prediction.shape[1] != n_columns) {
        throw py::value_error(describe_mismatch("prediction", "have " + std::to_string(n_columns) + " columns",
                                                std::to_string(rows.prediction.shape[1])));
    }
    const Work work;
    rows.in_bag.check("in_bag", forest.n_trees(), table.n_rows());
    rows.evaluation.check("evaluation", forest.n_trees(), table.n_rows());
    for (std::size_t j = 0; j < n_features; ++j) {
        if (group.data[j] >= 0) check_below("group_of", group.data + j, 1, n_groups);
    }
    ThreadTeam team(n_threads, run_signal_handlers);
    std::vector<std::unique_ptr<Projector>> projectors;
    while (projectors.size() < team.n_threads()) {
        projectors.push_back(table.rows().make_sobol_projector(forest.has_categories()));
    }
    std::vector<Projected> projected(team.n_threads());
    InOrder<Projected> in_order(team.n_threads());
    const auto add = [&](const Projected& part) {
        const double weight = weights.data[part.tree];
        for (std::size_t k = 0; k < part.place.size(); ++k) {
            const std::size_t at = rows.evaluation.begin(part.tree) + part.place[k];
            const auto row = static_cast<std::size_t>(rows.evaluation.index()[at]);
            const double* before = rows.prediction.data + at * n_columns;
            double* into = sums.data + (row * n_groups + static_cast<std::size_t>(part.group[k])) * n_columns;
            for (std::size_t c = 0; c < n_columns; ++c) {
                into[c] += weight * (part.mean[k * n_columns + c] - before[c]);
            }
        }
    };
    team.run(forest.n_trees(), [&](std::size_t w, std::size_t t, InterruptPoller& poller) {
        projected[w].clear();
        projected[w].tree = t;
        projectors[w]->pack(forest.trees()[t]);
        projectors[w]->project({group.data, n_groups, rows.of_tree(t), target}, poller, projected[w]);
        in_order.add(t, projected[w], poller, add);
    });
}

// Adds predictions, main effects and joint effects of the listed rows; without pairs, `pair_of` is empty. Blocks of
// rows are processed in parallel, each tree by tree: the more rows a block has, the fewer visits of nodes, but the
// effects of a block should fit into the cache.
void bind_add_joint_effects(const Forest& forest, const Table& table, const RowLists& rows, const py::object& share,
                            const py::object& leaf_value, const py::object& feature_of, const py::object& pair_of,
                            std::size_t n_threads, const py::object& prediction, const py::object& main,
                            const py::object& joint) {
    constexpr std::size_t kBlockBytes = std::size_t{1} << 23, kFewest = 256, kMost = std::size_t{1} << 15;
    forest.must_be_ensemble();
    const std::size_t n_rows = table.n_rows(), n_nodes = forest.n_nodes(), n_trees = forest.n_trees();
    const auto shares = read_array<double>("share", share, {n_nodes});
    const auto values = read_array<double>("leaf_value", leaf_value, {n_nodes, kAny});
    const auto feature = read_array<std::int32_t>("feature_of", feature_of, {table.n_features()});
    const auto mains = write_array<double>("main", main, {n_rows, kAny, kAny});
    const std::size_t n_features = mains.shape[1], n_columns = mains.shape[2], n_values = values.shape[1];
    const auto joints = write_array<double>("joint", joint, {n_rows, kAny, n_columns});
    const std::size_t n_sides = joints.shape[1] > 0 ? n_features : 0;
    const auto pairs = read_array<std::int32_t>("pair_of", pair_of, {n_sides, n_sides});
    const auto predictions = write_array<double>("prediction", prediction, {n_rows, n_columns});
    const std::size_t n_pairs = joints.shape[1];
    const Work work;
    rows.check("rows", n_trees, n_rows);
    for (std::size_t j = 0; j < feature.size(); ++j) {
        if (feature.data[j] >= 0) check_below("feature_of", feature.data + j, 1, n_features);
    }
    for (std::size_t k = 0; k < pairs.size(); ++k) {
        if (pairs.data[k] >= 0) check_below("pair_of", pairs.data + k, 1, n_pairs);
        if (pairs.data[k] >= 0 && k % (n_features + 1) == 0) {
            throw std::invalid_argument("pair_of must not pair a feature with itself.");
        }
    }
    for (std::size_t t = 0; t < n_trees; ++t) {
        for (std::size_t k = rows.begin(t) + 1; k < rows.end(t); ++k) {
            if (rows.index()[k] <= rows.index()[k - 1]) throw std::invalid_argument("rows must ascend in each list.");
        }
        const auto column = static_cast<std::size_t>(forest.column()[t]);
        if (column + n_values > n_columns) {
            throw std::invalid_argument(describe_mismatch("leaf_value", "have values of columns that exist",
                                                          std::to_string(column + n_values) + " columns"));
        }
    }
    const JointEffects out{feature.data, pairs.data,       n_features, n_pairs,
                           n_columns,    predictions.data, mains.data, joints.data};
    ThreadTeam team(n_threads, run_signal_handlers);
    std::vector<std::unique_ptr<JointWalker>> walkers(n_trees);
    std::vector<JointTree> trees(n_trees);
    team.run(n_trees, [&](std::size_t, std::size_t t, InterruptPoller& poller) {
        const TreeArrays& tree = forest.trees()[t];
        poller.count(static_cast<std::int64_t>(tree.n_nodes));
        walkers[t] = table.rows().make_joint_walker(forest.has_categories());
        walkers[t]->pack(tree);
        const std::vector<std::int32_t>& place = walkers[t]->structure().place;
        JointTree& own = trees[t];
        own.n_values = n_values;
        own.column = static_cast<std::size_t>(forest.column()[t]);
        own.share.resize(tree.n_nodes);
        own.value.resize(tree.n_nodes * n_values);
        for (std::size_t k = 0; k < tree.n_nodes; ++k) {
            const std::size_t from = static_cast<std::size_t>(tree.first) + k, to = static_cast<std::size_t>(place[k]);
            own.share[to] = shares.data[from];
            for (std::size_t c = 0; c < n_values; ++c) {
                own.value[to * n_values + c] = values.data[from * n_values + c];
            }
        }
    });
    std::vector<JointScratch> scratch(team.n_threads());
    const std::size_t fit = kBlockBytes / (sizeof(double) * (1 + n_columns * (1 + n_features + n_pairs)));
    const std::size_t own_share = (n_rows + team.n_threads() - 1) / team.n_threads();
    const std::size_t block = std::min(std::clamp(fit, kFewest, kMost), std::max<std::size_t>(own_share, 1));
    team.run((n_rows + block - 1) / block, [&](std::size_t w, std::size_t item, InterruptPoller& poller) {
        const auto low = static_cast<std::int64_t>(item * block), high = low + static_cast<std::int64_t>(block);
        for (std::size_t t = 0; t < n_trees; ++t) {
            const std::int64_t *begin = rows.index() + rows.begin(t), *end = rows.index() + rows.end(t);
            const std::int64_t *first = std::lower_bound(begin, end, low), *last = std::lower_bound(first, end, high);
            if (first == last) continue;
            walkers[t]->add(first, static_cast<std::size_t>(last - first), trees[t], poller, scratch[w], out);
        }
    });
}

template <class Index>
std::size_t list_oob_rows_of(const View<const Index>& bag, const View<std::int64_t>& oob_rows) {
    const Work work;
    std::vector<Counts> counts(oob_rows.size(), 0);
    for (std::size_t i = 0; i < bag.size(); ++i) count_drawn(static_cast<std::size_t>(bag.data[i]), counts);
    return list_oob_rows(counts, oob_rows.data);
}

std::size_t bind_list_oob_rows(const py::object& bag, const py::object& oob_rows) {
    const auto out = write_array<std::int64_t>("oob_rows", oob_rows, {kAny});
    if (has_type<std::int32_t>(bag)) return list_oob_rows_of(read_array<std::int32_t>("bag", bag, {kAny}), out);
    return list_oob_rows_of(read_array<std::int64_t>("bag", bag, {kAny}), out);
}

py::array_t<std::int64_t> bind_draw_bag(std::uint32_t seed, std::size_t n_draws, std::size_t n_rows) {
    py::array_t<std::int64_t> bag(static_cast<py::ssize_t>(n_draws));
    std::int64_t* next = bag.mutable_data();
    const Work work;
    draw_bag(seed, n_draws, n_rows, [&](std::size_t row) { *next++ = static_cast<std::int64_t>(row); });
    return bag;
}

// Sums rows at the nodes, in the order of the arrays; `sums` must be zero.
void bind_sum_leaves(const Forest& forest, const py::object& leaves, const RowLists& rows, const TargetArrays& arrays,
                     const py::object& sums) {
    forest.must_be_ensemble();
    const Target target = arrays.view();
    const std::size_t width = target.n_sums();
    const auto found = read_array<std::int32_t>("leaves", leaves, {rows.size()});
    const auto out = write_array<double>("sums", sums, {forest.n_nodes(), width});
    const Work work;
    forest.check_column(target);
    rows.check("rows", forest.n_trees(), arrays.n_rows());
    check_below("leaves", found.data, found.size(), forest.n_nodes());
    arrays.check_codes();
    InterruptPoller poller(run_signal_handlers);
    std::vector<std::int32_t> own;
    std::vector<double> chunk;
    for (std::size_t t = 0; t < forest.n_trees(); ++t) {
        const TreeArrays& tree = forest.trees()[t];
        own.assign(found.data + rows.begin(t), found.data + rows.end(t));
        for (std::int32_t& leaf : own) leaf = static_cast<std::int32_t>(leaf - tree.first);
        check_below("leaves, minus the tree's root,", own.data(), own.size(), tree.n_nodes);
        double* here = out.data + static_cast<std::size_t>(tree.first) * width;
        const RowsAtLeaves listed{rows.index() + rows.begin(t), own.data(), own.size()};
        sum_rows(target, forest.column()[t], listed, tree.n_nodes, poller, chunk, here);
        aggregate_to_root(tree.n_nodes, width, here, [&](std::size_t node) {
            std::int64_t left = tree.left.integer(node), right = tree.right.integer(node);
            if (left < 0 && right < 0) return std::pair(left, right);
            left -= tree.first;
            right -= tree.first;
            for (const std::int64_t child : {left, right}) {
                if (child <= static_cast<std::int64_t>(node) || child >= static_cast<std::int64_t>(tree.n_nodes)) {
                    throw BrokenTree("children must come after their parent, in the same tree.");
                }
            }
            return std::pair(left, right);
        });
    }
}

// Rejects nodes whose path does not lead to a root through splits on existing columns.
void check_paths(const View<const std::int64_t>& parent, const std::int32_t* feature, std::size_t n_features) {
    for (std::size_t k = 0; k < parent.size(); ++k) {
        const std::int64_t above = parent.data[k];
        if (above < 0 || above > static_cast<std::int64_t>(k))
            throw BrokenTree("parents must come before their children.");
        if (above < static_cast<std::int64_t>(k)) check_below("feature", feature + above, 1, n_features);
    }
}

void bind_add_path_influence(const Forest& forest, const py::object& parent, const py::object& leaves,
                             const RowLists& rows, const py::object& weight, const TargetArrays& arrays,
                             const TermArrays& term_arrays, const py::object& out) {
    forest.must_be_ensemble();
    const auto sums = write_array<double>("out", out, {kAny, kAny});
    const std::size_t n_rows = sums.shape[0], n_features = sums.shape[1];
    const Target target = arrays.view();
    const auto above = read_array<std::int64_t>("parent", parent, {forest.n_nodes()});
    const auto found = read_array<std::int32_t>("leaves", leaves, {rows.size()});
    const auto weights = read_array<double>("weight", weight, {rows.size()});
    const NodeTerms terms = term_arrays.view(forest.n_nodes(), target);
    const Work work;
    forest.check_column(target);
    arrays.check_rows(n_rows);
    arrays.check_codes();
    rows.check("rows", forest.n_trees(), n_rows);
    check_below("leaves", found.data, found.size(), forest.n_nodes());
    check_paths(above, forest.features(), n_features);
    InterruptPoller poller(run_signal_handlers);
    PathInfluence influence(above.data, forest.features(), target, terms, n_features);
    for (std::size_t t = 0; t < forest.n_trees(); ++t) {
        for (std::size_t i = rows.begin(t); i < rows.end(t); ++i) {
            influence.add(found.data[i], rows.index()[i], weights.data[i], forest.column()[t], sums.data);
            poller.count(static_cast<std::int64_t>(influence.path_length()));
        }
    }
}

// The influence of rows, divided by `total_weight` and centered by `mean` before products are summed.
struct InfluenceRows {
    InfluenceRows(const py::object& eval_influence, const py::object& inbag_influence, const py::object& is_scoring,
                  double total_weight, const py::object& mean, const py::object& bags)
        : eval(read_array<double>("eval_influence", eval_influence, {kAny, kAny})),
          inbag(read_optional<double>("inbag_influence", inbag_influence, eval.shape)),
          mean(read_array<double>("mean", mean, {eval.shape[1]})),
          is_scoring(read_array<bool>("is_scoring", is_scoring, {eval.shape[0]})),
          bags(read_optional<float>("bags", bags, {kAny, eval.shape[0]})),
          total_weight(total_weight) {
        if (this->bags && this->bags.shape[0] > 0 && !inbag) {
            throw py::value_error("inbag_influence must be an array if bags is one, got None.");
        }
    }

    InfluenceRowsView view() const {
        InfluenceRowsView rows;
        rows.n_rows = eval.shape[0];
        rows.n_columns = eval.shape[1];
        rows.n_bags = bags ? bags.shape[0] : 0;
        rows.eval_influence = eval.data;
        rows.inbag_influence = inbag.data;
        rows.is_scoring = reinterpret_cast<const std::uint8_t*>(is_scoring.data);
        rows.total_weight = total_weight;
        rows.mean = mean.data;
        rows.bags = bags.data;
        return rows;
    }

    View<const double> eval, inbag, mean;
    View<const bool> is_scoring;
    View<const float> bags;
    double total_weight;
};

void bind_sum_row_products(const InfluenceRows& influence, std::size_t n_threads, const py::object& products,
                           const py::object& totals, const py::object& K, const py::object& L, const py::object& d_d) {
    const InfluenceRowsView rows = influence.view();
    const RowProductsOutput out{write_array<double>("products", products, {4, rows.n_columns}).data,
                                write_array<double>("totals", totals, {3}).data,
                                write_array<double>("K", K, {rows.n_bags, rows.n_columns}).data,
                                write_array<double>("L", L, {rows.n_bags, rows.n_columns}).data,
                                write_array<double>("d_d", d_d, {rows.n_bags}).data};
    const Work work;
    ThreadTeam team(n_threads, run_signal_handlers);
    sum_row_products(rows, out, team);
}

}  // namespace

PYBIND11_MODULE(_kernel, module, py::mod_gil_not_used()) {
    py::module_::import("atexit").attr("register")(py::cpp_function(wait_for_threads));
    const auto os = py::module_::import("os");
    if (py::hasattr(os, "register_at_fork")) {  // a forked child does not inherit threads
        os.attr("register_at_fork")(py::arg("after_in_child") = py::cpp_function([] { n_working = 0; }));
    }
    py::register_exception<BrokenTree>(module, "BrokenTreeError", PyExc_ValueError);
    using O = const py::object&;
    py::class_<NodeArrays>(module, "NodeArrays")
        .def(py::init<O, O, O, O, O, O, O>(), py::arg("feature"), py::arg("threshold"), py::arg("left"),
             py::arg("right"), py::arg("missing_left"), py::arg("weight"), py::arg("value"));
    py::class_<CategorySets>(module, "CategorySets")
        .def(py::init<O, O, O>(), py::arg("node_set"), py::arg("offset"), py::arg("bits"));
    py::class_<Forest>(module, "Forest")
        .def_static("of_ensemble", &Forest::of_ensemble, py::arg("nodes"), py::arg("offset"), py::arg("categories"),
                    py::arg("column"))
        .def_static("of_trees", &Forest::of_trees, py::arg("trees"));
    py::class_<TargetArrays>(module, "Target")
        .def(py::init<O, O, O, O, O, O>(), py::arg("codes"), py::arg("numbers"), py::arg("columns"),
             py::arg("row_weight"), py::arg("origin"), py::arg("largest"));
    py::class_<Table>(module, "Table")
        .def(py::init<O, bool, std::size_t>(), py::arg("X"), py::arg("has_missing"), py::arg("n_features"));
    py::class_<RowLists>(module, "RowLists").def(py::init<O, O>(), py::arg("index"), py::arg("offset"));
    py::class_<TreeRowArrays>(module, "TreeRows")
        .def_static("every_row", &TreeRowArrays::every_row)
        .def_static("of_seeds", &TreeRowArrays::of_seeds, py::arg("seeds"), py::arg("n_draws"))
        .def_static("of_bags", &TreeRowArrays::of_bags, py::arg("bags"))
        .def_static("of_lists", &TreeRowArrays::of_lists, py::arg("rows"), py::arg("evaluation_weight"),
                    py::arg("inbag_weight"));
    py::class_<ProjectionRows>(module, "ProjectionRows")
        .def(py::init<const RowLists&, O, const RowLists&, O>(), py::arg("in_bag"), py::arg("in_bag_weight"),
             py::arg("evaluation"), py::arg("prediction"));
    py::class_<TermArrays>(module, "RowTerms")
        .def(py::init<O, O, O>(), py::arg("linear"), py::arg("square"), py::arg("constant"));
    py::class_<InfluenceRows>(module, "InfluenceRows")
        .def(py::init<O, O, O, double, O, O>(), py::arg("eval_influence"), py::arg("inbag_influence"),
             py::arg("is_scoring"), py::arg("total_weight"), py::arg("mean"), py::arg("bags"));

    module.def("draw_bag", &bind_draw_bag, py::arg("seed"), py::arg("n_draws"), py::arg("n_rows"));
    module.def("list_oob_rows", &bind_list_oob_rows, py::arg("bag"), py::arg("oob_rows"));
    module.def("find_leaves", &bind_find_leaves, py::arg("forest"), py::arg("table"), py::arg("rows"),
               py::arg("n_threads"), py::arg("leaves"));
    module.def("find_swapped_leaves", &bind_find_swapped_leaves, py::arg("forest"), py::arg("table"), py::arg("index"),
               py::arg("donors"), py::arg("leaves"));
    module.def("sum_leaves", &bind_sum_leaves, py::arg("forest"), py::arg("leaves"), py::arg("rows"), py::arg("target"),
               py::arg("sums"));
    module.def("add_path_influence", &bind_add_path_influence, py::arg("forest"), py::arg("parent"), py::arg("leaves"),
               py::arg("rows"), py::arg("weight"), py::arg("target"), py::arg("terms"), py::arg("out"));
    module.def("add_sobol_projection", &bind_add_sobol_projection, py::arg("forest"), py::arg("table"),
               py::arg("target"), py::arg("rows"), py::arg("tree_weight"), py::arg("group_of"), py::arg("n_threads"),
               py::arg("out"));
    module.def("add_joint_effects", &bind_add_joint_effects, py::arg("forest"), py::arg("table"), py::arg("rows"),
               py::arg("share"), py::arg("leaf_value"), py::arg("feature_of"), py::arg("pair_of"), py::arg("n_threads"),
               py::arg("prediction"), py::arg("main"), py::arg("joint"));
    module.def("sum_row_products", &bind_sum_row_products, py::arg("influence"), py::arg("n_threads"),
               py::arg("products"), py::arg("totals"), py::arg("K"), py::arg("L"), py::arg("d_d"));
    add_forest_bindings(module);
    add_row_bindings(module);
}
