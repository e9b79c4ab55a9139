// Bindings of what sends all rows down a forest: scores, sums at nodes, influence, and trees for other engines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "device_trees.hpp"
#include "forest_pass.hpp"
#include "python_forest.hpp"
#include "python_rows.hpp"
#include "python_target.hpp"
#include "python_work.hpp"

namespace truewood {

// How splits are scored.
inline SplitCriterion make_criterion(const std::string& formula, bool skips, double scale, bool is_additive) {
    const auto find = [&formula] {
        if (formula == "ufi") return Formula::kUfi;
        if (formula == "ufi_centered") return Formula::kUfiCentered;
        if (formula == "mdi_oob") return Formula::kMdiOob;
        throw std::invalid_argument("the kernel has no formula " + formula + ".");
    };
    return {find(), skips, scale, is_additive};
}

// Where the scores of trees go.
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

    // The magnitude is needed for tests of influence only.
    ScoreOutput view(std::size_t n_trees, std::size_t n_features, const Target& target, bool with_magnitude) const {
        const Shape expected{n_trees, n_features, target.n_outputs};
        if (scores_.shape != expected) {
            throw py::value_error(
                refuse("scores", "be of shape " + describe_shape(expected), describe_shape(scores_.shape)));
        }
        return {scores_.data,
                mdi_.data,
                counted_mdi_.data,
                with_magnitude ? magnitude_.data : nullptr,
                split_weight_.data,
                skipped_weight_.data,
                evaluation_weight_.data,
                evaluation_impurity_.data};
    }

private:
    View<double> scores_, mdi_, counted_mdi_, magnitude_, split_weight_, skipped_weight_, evaluation_weight_,
        evaluation_impurity_;
};

// Where the influence of the rows from `first` on is added.
class InfluenceArrays {
public:
    InfluenceArrays(const py::object& eval_influence, const py::object& inbag_influence, const py::object& bags,
                    std::int64_t first)
        : eval_(write_array<double>("eval_influence", eval_influence, {kAny, kAny})),
          inbag_(write_optional<double>("inbag_influence", inbag_influence, eval_.shape)),
          bags_(write_optional<float>("bags", bags, {kAny, eval_.shape[0]})),
          first_(first) {
        if (bags_ && !inbag_) throw py::value_error("inbag_influence must be given with bags, got None.");
    }

    bool has_inbag() const { return static_cast<bool>(inbag_); }

    InfluenceOutput view(std::size_t n_trees, const Table& table) const {
        const std::size_t n_asked = eval_.shape[0], n_rows = table.n_rows(), n_bags = bags_ ? bags_.shape[0] : 0;
        if (eval_.shape[1] != table.n_features()) {
            const auto n = std::to_string(table.n_features());
            throw py::value_error(refuse("eval_influence", "have " + n + " columns", std::to_string(eval_.shape[1])));
        }
        if (first_ < 0 || static_cast<std::size_t>(first_) > n_rows ||
            n_asked > n_rows - static_cast<std::size_t>(first_)) {
            const auto rows = std::to_string(n_asked) + " rows from " + std::to_string(first_) + " on";
            throw py::value_error(refuse("eval_influence", "be of rows among " + std::to_string(n_rows), rows));
        }
        if (n_bags > n_trees) {
            const auto n = std::to_string(n_trees);
            throw py::value_error(refuse("bags", "be of at most " + n + " trees", std::to_string(n_bags)));
        }
        return {eval_.data, inbag_.data, bags_.data, n_bags, first_, n_asked};
    }

private:
    View<double> eval_, inbag_;
    View<float> bags_;
    std::int64_t first_;
};

inline TreesAndRows join_inputs(const Forest& forest, const Table& table, const Target& target,
                                const double* tree_weight) {
    forest.check_column(target);
    if (forest.n_columns() != target.n_columns) throw BrokenTree("the trees have another target.");
    return {forest.trees(),
            forest.has_categories(),
            std::vector<TreeRows>(forest.n_trees()),
            forest.column(),
            tree_weight,
            table.n_rows(),
            table.n_features(),
            target};
}

// The target as scores need it, of rows that are checked by the caller; additive trees have no sums of squares.
inline Target view_target(const TargetArrays& arrays, const SplitCriterion& criterion) {
    Target target = arrays.view_for_scores();
    target.has_squares = target.has_squares && !criterion.is_additive;
    if (criterion.formula == Formula::kUfi && !target.has_classes() && criterion.is_additive) {
        throw py::value_error(refuse("formula", "be 'ufi_centered' or 'mdi_oob' for additive trees", "'ufi'"));
    }
    return target;
}

inline void bind_score_trees(const Forest& forest, const Table& table, const TargetArrays& target,
                             const py::object& rows, const py::object& tree_weight, const SplitCriterion& criterion,
                             std::size_t n_threads, const ScoreArrays& scores, const InfluenceArrays* influence) {
    const auto weights = read_optional<double>("tree_weight", tree_weight, {forest.n_trees()});
    target.check_rows(table.n_rows());
    target.check_codes();
    TreesAndRows inputs = join_inputs(forest, table, view_target(target, criterion), weights.data);
    const ScoreTrees job{criterion,
                         scores.view(forest.n_trees(), table.n_features(), inputs.target, influence != nullptr),
                         influence ? influence->view(forest.n_trees(), table) : InfluenceOutput{}};
    const HeldTreeRows read =
        read_rows(rows, forest.n_trees(), table.n_rows(), influence != nullptr, influence && influence->has_inbag());
    inputs.rows = read.rows;
    const Work work;
    ThreadTeam team(n_threads, run_signal_handlers);
    ForestPass<ScoreTrees>(job, inputs, table.rows(), team).run();
}

// Sums at the nodes in the order of the arrays, of every row; without squares where `sums` has no room for them.
inline void bind_sum_nodes(const Forest& forest, const Table& table, const TargetArrays& arrays, std::size_t n_threads,
                           const py::object& sums) {
    forest.must_be_ensemble();
    Target target = arrays.view(table.n_rows());
    const auto out = write_array<double>("sums", sums, {forest.n_nodes(), kAny});
    target.has_squares = target.has_squares && out.shape[1] == target.n_sums();
    write_array<double>("sums", sums, {forest.n_nodes(), target.n_sums()});
    const TreesAndRows inputs = join_inputs(forest, table, target, nullptr);
    const SumNodes job{out.data, {}};
    const Work work;
    ThreadTeam team(n_threads, run_signal_handlers);
    ForestPass<SumNodes>(job, inputs, table.rows(), team).run();
}

// Adds the influence of every row by terms of the nodes in the order of the arrays.
inline void bind_add_influence(const Forest& forest, const Table& table, const TargetArrays& arrays,
                               const TermArrays& terms, const py::object& tree_weight, std::size_t n_threads,
                               const py::object& eval_influence) {
    forest.must_be_ensemble();
    const auto weights = read_optional<double>("tree_weight", tree_weight, {forest.n_trees()});
    const auto out = write_array<double>("eval_influence", eval_influence, {table.n_rows(), table.n_features()});
    const TreesAndRows inputs = join_inputs(forest, table, arrays.view(table.n_rows()), weights.data);
    const AddInfluence job{terms.view(forest.n_nodes(), inputs.target),
                           {out.data, nullptr, nullptr, 0, 0, table.n_rows()}};
    const Work work;
    ThreadTeam team(n_threads, run_signal_handlers);
    ForestPass<AddInfluence>(job, inputs, table.rows(), team).run();
}

// Trees for an engine that walks elsewhere: 16 bytes a node, and where each node has gone to.
inline void bind_lay_out(const Forest& forest, std::size_t n_features, std::size_t n_threads, const py::object& nodes,
                         const py::object& place) {
    if (forest.n_nodes() > kMostNodes) {
        throw py::value_error(refuse("forest", "be of fewer than 2^31 nodes", std::to_string(forest.n_nodes())));
    }
    const auto out = write_array<std::uint8_t>("nodes", nodes, {forest.n_nodes(), sizeof(DeviceNode)});
    const auto places = write_array<std::int32_t>("place", place, {forest.n_nodes()});
    if (reinterpret_cast<std::uintptr_t>(out.data) % alignof(DeviceNode) != 0) {
        throw py::value_error(refuse("nodes", "be aligned to 8 bytes", "an array that is not"));
    }
    const Work work;
    ThreadTeam team(n_threads, run_signal_handlers);
    lay_out(forest.trees(), n_features, team, reinterpret_cast<DeviceNode*>(out.data), places.data);
}

// Scores by sums at leaves that such an engine found, and terms of rows by place where there is an array for them.
inline void bind_score_sums(const Forest& forest, std::size_t n_features, const TargetArrays& arrays,
                            const SplitCriterion& criterion, std::size_t n_threads, const py::object& leaf_sums,
                            std::size_t n_roles, const py::object& terms, const ScoreArrays& scores) {
    const Target target = view_target(arrays, criterion);
    if (forest.n_columns() != target.n_columns) throw BrokenTree("the trees have another target.");
    if (n_roles > 2) throw py::value_error(refuse("n_roles", "be at most 2", std::to_string(n_roles)));
    const ScoreOutput out = scores.view(forest.n_trees(), n_features, target, !terms.is_none());
    const std::size_t n_terms = target.n_columns + (target.has_classes() ? 0 : 2);
    const auto sums = read_array<double>("leaf_sums", leaf_sums, {forest.n_nodes(), target.n_sums()});
    const auto into = write_optional<double>("terms", terms, {forest.n_nodes(), n_roles * n_terms});
    const Work work;
    ThreadTeam team(n_threads, run_signal_handlers);
    score_sums(forest.trees(), n_features, target, criterion, sums.data, out, n_roles, into.data, team);
}

}  // namespace truewood
