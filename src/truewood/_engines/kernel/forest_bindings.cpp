// Bindings of the forest passes (scores, node sums, influence), and of trees and scores for an engine on a device.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "device_trees.hpp"
#include "forest_jobs.hpp"
#include "python_forest.hpp"
#include "python_rows.hpp"
#include "python_target.hpp"
#include "python_work.hpp"

namespace truewood {

namespace {

// How splits are scored.
SplitCriterion make_criterion(const std::string& formula, bool skips, double scale, bool is_additive) {
    const auto find = [&formula] {
        if (formula == "ufi") return Formula::kUfi;
        if (formula == "ufi_centered") return Formula::kUfiCentered;
        if (formula == "mdi_oob") return Formula::kMdiOob;
        throw std::invalid_argument(
            describe_mismatch("formula", "be 'ufi', 'ufi_centered' or 'mdi_oob'", "'" + formula + "'"));
    };
    return {find(), skips, scale, is_additive};
}

// Receives the scores of trees.
class ScoreArrays {
public:
    ScoreArrays(const py::object& scores, const py::object& mdi, const py::object& counted_mdi,
                const py::object& magnitude, const py::object& split_weight, const py::object& skipped_weight,
                const py::object& evaluation_weight, const py::object& evaluation_impurity)
        : scores_(write_array<double>("scores", scores, {kAny, kAny, kAny})),
          mdi_(write_array<double>("mdi", mdi, scores_.shape)),
          counted_mdi_(write_array<double>("counted_mdi", counted_mdi, scores_.shape)),
          magnitude_(write_array<double>("magnitude", magnitude, {scores_.shape[0], scores_.shape[1]})),
          split_weight_(write_array<double>("split_weight", split_weight, {scores_.shape[0]})),
          skipped_weight_(write_array<double>("skipped_weight", skipped_weight, {scores_.shape[0]})),
          evaluation_weight_(write_array<double>("evaluation_weight", evaluation_weight, {scores_.shape[0]})),
          evaluation_impurity_(write_array<double>("evaluation_impurity", evaluation_impurity, {scores_.shape[0]})) {}

    ScoreOutput view(std::size_t n_trees, std::size_t n_features, const Target& target) const {
        const Shape expected{n_trees, n_features, target.n_outputs};
        if (scores_.shape != expected) {
            throw py::value_error(
                describe_mismatch("scores", "have shape " + describe_shape(expected), describe_shape(scores_.shape)));
        }
        return {scores_.data,
                mdi_.data,
                counted_mdi_.data,
                magnitude_.data,
                split_weight_.data,
                skipped_weight_.data,
                evaluation_weight_.data,
                evaluation_impurity_.data};
    }

private:
    View<double> scores_, mdi_, counted_mdi_, magnitude_, split_weight_, skipped_weight_, evaluation_weight_,
        evaluation_impurity_;
};

// Receives the influence of consecutive rows, starting with row `first`; `tree_weight` weighs the trees.
class InfluenceArrays {
public:
    InfluenceArrays(const py::object& eval_influence, const py::object& inbag_influence, const py::object& bags,
                    std::int64_t first, const py::object& tree_weight)
        : eval_(write_array<double>("eval_influence", eval_influence, {kAny, kAny})),
          inbag_(write_optional<double>("inbag_influence", inbag_influence, eval_.shape)),
          bags_(write_optional<float>("bags", bags, {kAny, eval_.shape[0]})),
          first_(first),
          tree_weight_(read_optional<double>("tree_weight", tree_weight, {kAny})) {
        if (bags_ && !inbag_) throw py::value_error("inbag_influence must be an array if bags is one, got None.");
    }

    bool has_inbag() const { return static_cast<bool>(inbag_); }

    InfluenceOutput view(std::size_t n_trees, const Table& table) const {
        const std::size_t n_asked = eval_.shape[0], n_rows = table.n_rows(), n_bags = bags_ ? bags_.shape[0] : 0;
        if (eval_.shape[1] != table.n_features()) {
            const auto n = std::to_string(table.n_features());
            throw py::value_error(
                describe_mismatch("eval_influence", "have " + n + " columns", std::to_string(eval_.shape[1])));
        }
        if (first_ < 0 || static_cast<std::size_t>(first_) > n_rows ||
            n_asked > n_rows - static_cast<std::size_t>(first_)) {
            const auto rows = std::to_string(n_asked) + " rows starting with " + std::to_string(first_);
            throw py::value_error(
                describe_mismatch("eval_influence", "cover rows among " + std::to_string(n_rows), rows));
        }
        if (n_bags > n_trees) {
            const auto n = std::to_string(n_trees);
            throw py::value_error(describe_mismatch("bags", "have at most " + n + " trees", std::to_string(n_bags)));
        }
        if (tree_weight_ && tree_weight_.size() != n_trees) {
            const auto n = std::to_string(n_trees);
            throw py::value_error(
                describe_mismatch("tree_weight", "hold " + n + " numbers", std::to_string(tree_weight_.size())));
        }
        return {eval_.data, inbag_.data, bags_.data, n_bags, first_, n_asked, tree_weight_.data};
    }

private:
    View<double> eval_, inbag_;
    View<float> bags_;
    std::int64_t first_;
    View<const double> tree_weight_;
};

void check_width(const Forest& forest, const Target& target) {
    if (forest.n_columns() != target.n_columns) throw BrokenTree("node values must have one column per target column.");
}

TreesAndRows join_inputs(const Forest& forest, const Table& table, const Target& target, const TreeRowArrays& rows) {
    forest.check_column(target);
    check_width(forest, target);
    return {forest.trees(),  forest.has_categories(), rows.view(forest.n_trees(), table.n_rows()),
            forest.column(), table.n_rows(),          table.n_features(),
            target};
}

// The target for scores; the caller checks the rows. Additive trees need no sums of squares.
Target view_target(const TargetArrays& arrays, const SplitCriterion& criterion) {
    Target target = arrays.view_for_scores();
    target.has_squares = target.has_squares && !criterion.is_additive;
    if (criterion.formula == Formula::kUfi && !target.has_classes() && criterion.is_additive) {
        throw py::value_error(
            describe_mismatch("formula", "be 'ufi_centered' or 'mdi_oob' for additive trees", "'ufi'"));
    }
    return target;
}

template <class Job>
void run_forest_pass(const Job& job, const TreesAndRows& inputs, const Table& table, std::size_t n_threads) {
    const Work work;
    ThreadTeam team(n_threads, run_signal_handlers);
    run_forest_pass(job, inputs, table.rows(), team);
}

TreesAndRows join_score_inputs(const Forest& forest, const Table& table, const TargetArrays& target,
                               const TreeRowArrays& rows, const SplitCriterion& criterion) {
    const Target view = view_target(target, criterion);  // checks the columns, which check_codes() relies on
    target.check_rows(table.n_rows());
    target.check_codes();
    return join_inputs(forest, table, view, rows);
}

void bind_score_trees(const Forest& forest, const Table& table, const TargetArrays& target, const TreeRowArrays& rows,
                      const SplitCriterion& criterion, std::size_t n_threads, const ScoreArrays& scores) {
    const TreesAndRows inputs = join_score_inputs(forest, table, target, rows, criterion);
    const ScoreTrees job{criterion, scores.view(forest.n_trees(), table.n_features(), inputs.target)};
    run_forest_pass(job, inputs, table, n_threads);
}

void bind_score_trees_with_influence(const Forest& forest, const Table& table, const TargetArrays& target,
                                     const TreeRowArrays& rows, const SplitCriterion& criterion, std::size_t n_threads,
                                     const ScoreArrays& scores, const InfluenceArrays& influence) {
    rows.check_influence(influence.has_inbag());
    const TreesAndRows inputs = join_score_inputs(forest, table, target, rows, criterion);
    const ScoreTreesWithInfluence job{criterion, scores.view(forest.n_trees(), table.n_features(), inputs.target),
                                      influence.view(forest.n_trees(), table)};
    run_forest_pass(job, inputs, table, n_threads);
}

// Adds the influence of evaluation rows with residuals in place of the target: by row and by tree.
void bind_add_residuals(const Forest& forest, const Table& table, const TargetArrays& target, const TreeRowArrays& rows,
                        const SplitCriterion& criterion, const py::object& residual, const py::object& tree_weight,
                        std::size_t n_threads, const py::object& by_row, const py::object& by_tree) {
    rows.check_evaluation_weights();
    const TreesAndRows inputs = join_score_inputs(forest, table, target, rows, criterion);
    const std::size_t n_rows = table.n_rows(), n_features = table.n_features();
    const auto residuals =
        read_array<double>("residual", residual, {n_rows, inputs.target.n_target_columns(), n_features});
    const auto weights = read_optional<double>("tree_weight", tree_weight, {forest.n_trees()});
    const auto of_rows = write_array<double>("by_row", by_row, {n_rows, n_features});
    const auto of_trees = write_array<double>("by_tree", by_tree, {forest.n_trees(), n_features});
    AddResiduals job{criterion, {}};
    job.influence.eval_influence = of_rows.data;
    job.influence.n_rows = n_rows;
    job.influence.tree_weight = weights.data;
    job.influence.residual = residuals.data;
    job.influence.by_tree = of_trees.data;
    run_forest_pass(job, inputs, table, n_threads);
}

// Sums all rows at the nodes, in the order of the arrays; without squares if `sums` has no columns for them.
void bind_sum_nodes(const Forest& forest, const Table& table, const TargetArrays& arrays, std::size_t n_threads,
                    const py::object& sums) {
    forest.must_be_ensemble();
    Target target = arrays.view(table.n_rows());
    const auto out = write_array<double>("sums", sums, {forest.n_nodes(), kAny});
    target.has_squares = target.has_squares && out.shape[1] == target.n_sums();
    write_array<double>("sums", sums, {forest.n_nodes(), target.n_sums()});
    const TreesAndRows inputs = join_inputs(forest, table, target, TreeRowArrays::every_row());
    run_forest_pass(SumNodes{out.data}, inputs, table, n_threads);
}

// Adds the influence of all rows by terms of the nodes, in the order of the arrays.
void bind_add_influence(const Forest& forest, const Table& table, const TargetArrays& arrays, const TermArrays& terms,
                        const py::object& tree_weight, std::size_t n_threads, const py::object& eval_influence) {
    forest.must_be_ensemble();
    const auto weights = read_optional<double>("tree_weight", tree_weight, {forest.n_trees()});
    const auto out = write_array<double>("eval_influence", eval_influence, {table.n_rows(), table.n_features()});
    const TreesAndRows inputs = join_inputs(forest, table, arrays.view(table.n_rows()), TreeRowArrays::every_row());
    AddInfluence job{terms.view(forest.n_nodes(), inputs.target), {}};
    job.influence.eval_influence = out.data;
    job.influence.n_rows = table.n_rows();
    job.influence.tree_weight = weights.data;
    run_forest_pass(job, inputs, table, n_threads);
}

// Trees in the layout of a device: 16 bytes per node, and the new position of each node.
void bind_lay_out(const Forest& forest, std::size_t n_features, std::size_t n_threads, const py::object& nodes,
                  const py::object& place) {
    if (forest.n_nodes() > kMostNodes) {
        throw py::value_error(
            describe_mismatch("forest", "have fewer than 2^31 nodes", std::to_string(forest.n_nodes())));
    }
    const auto out = write_array<std::uint8_t>("nodes", nodes, {forest.n_nodes(), sizeof(DeviceNode)});
    const auto places = write_array<std::int32_t>("place", place, {forest.n_nodes()});
    if (reinterpret_cast<std::uintptr_t>(out.data) % alignof(DeviceNode) != 0) {
        throw py::value_error(describe_mismatch("nodes", "be aligned to 8 bytes", "an array that is not"));
    }
    const Work work;
    ThreadTeam team(n_threads, run_signal_handlers);
    lay_out(forest.trees(), n_features, team, reinterpret_cast<DeviceNode*>(out.data), places.data);
}

// Scores by sums at leaves from a device, and row terms by place. The width of `terms` is that of 0, 1 or 2 roles.
void bind_score_sums(const Forest& forest, std::size_t n_features, const TargetArrays& arrays,
                     const SplitCriterion& criterion, std::size_t n_threads, const py::object& leaf_sums,
                     const ScoreArrays& scores, const py::object& terms) {
    const Target target = view_target(arrays, criterion);
    check_width(forest, target);
    const ScoreOutput out = scores.view(forest.n_trees(), n_features, target);
    const std::size_t n_terms = target.n_columns + (target.has_classes() ? 0 : 2);
    const auto sums = read_array<double>("leaf_sums", leaf_sums, {forest.n_nodes(), target.n_sums()});
    const auto into = write_array<double>("terms", terms, {forest.n_nodes(), kAny});
    const std::size_t n_roles = into.shape[1] / n_terms;
    if (n_roles > 2 || into.shape[1] % n_terms != 0) {
        throw py::value_error(describe_mismatch("terms", "have 0, 1 or 2 times " + std::to_string(n_terms) + " columns",
                                                std::to_string(into.shape[1])));
    }
    const Work work;
    ThreadTeam team(n_threads, run_signal_handlers);
    score_sums({forest.trees(), sums.data, n_features, target}, criterion, out, {into.data, n_roles}, team);
}

}  // namespace

void add_forest_bindings(py::module_& module) {
    using O = const py::object&;
    py::class_<SplitCriterion>(module, "SplitCriterion")
        .def(py::init(&make_criterion), py::arg("formula"), py::arg("skips"), py::arg("scale"), py::arg("is_additive"));
    py::class_<ScoreArrays>(module, "Scores")
        .def(py::init<O, O, O, O, O, O, O, O>(), py::arg("scores"), py::arg("mdi"), py::arg("counted_mdi"),
             py::arg("magnitude"), py::arg("split_weight"), py::arg("skipped_weight"), py::arg("evaluation_weight"),
             py::arg("evaluation_impurity"));
    py::class_<InfluenceArrays>(module, "Influence")
        .def(py::init<O, O, O, std::int64_t, O>(), py::arg("eval_influence"), py::arg("inbag_influence"),
             py::arg("bags"), py::arg("first"), py::arg("tree_weight"));

    module.def("sum_nodes", &bind_sum_nodes, py::arg("forest"), py::arg("table"), py::arg("target"),
               py::arg("n_threads"), py::arg("sums"));
    module.def("add_influence", &bind_add_influence, py::arg("forest"), py::arg("table"), py::arg("target"),
               py::arg("terms"), py::arg("tree_weight"), py::arg("n_threads"), py::arg("eval_influence"));
    module.def("score_trees", &bind_score_trees, py::arg("forest"), py::arg("table"), py::arg("target"),
               py::arg("rows"), py::arg("criterion"), py::arg("n_threads"), py::arg("scores"));
    module.def("score_trees_with_influence", &bind_score_trees_with_influence, py::arg("forest"), py::arg("table"),
               py::arg("target"), py::arg("rows"), py::arg("criterion"), py::arg("n_threads"), py::arg("scores"),
               py::arg("influence"));
    module.def("add_residuals", &bind_add_residuals, py::arg("forest"), py::arg("table"), py::arg("target"),
               py::arg("rows"), py::arg("criterion"), py::arg("residual"), py::arg("tree_weight"), py::arg("n_threads"),
               py::arg("by_row"), py::arg("by_tree"));
    module.def("lay_out", &bind_lay_out, py::arg("forest"), py::arg("n_features"), py::arg("n_threads"),
               py::arg("nodes"), py::arg("place"));
    module.def("score_sums", &bind_score_sums, py::arg("forest"), py::arg("n_features"), py::arg("target"),
               py::arg("criterion"), py::arg("n_threads"), py::arg("leaf_sums"), py::arg("scores"), py::arg("terms"));
}

}  // namespace truewood
