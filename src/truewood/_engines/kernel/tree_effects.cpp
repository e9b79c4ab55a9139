// Sobol projections and joint effects for all types of rows. No Python here.
#include <cstddef>
#include <cstdint>
#include <memory>

#include "joint_effects.hpp"
#include "row_matrix.hpp"
#include "sobol_projection.hpp"
#include "threads.hpp"

namespace truewood {

namespace {

template <bool HasMissing, bool HasCategories, class Matrix>
class SobolProjectorOf final : public HolderOf<Projector, Matrix> {
public:
    using HolderOf<Projector, Matrix>::HolderOf;
    void project(const ProjectionCall& call, InterruptPoller& poller, Projected& out) const override {
        TreeProjection<HasMissing, HasCategories, Matrix>(this->tree_, this->matrix_, call, poller, out).run();
    }
};

template <bool HasMissing, bool HasCategories, class Matrix>
class JointWalkerOf final : public HolderOf<JointWalker, Matrix> {
public:
    using HolderOf<JointWalker, Matrix>::HolderOf;
    void add(const std::int64_t* rows, std::size_t n, const JointTree& tree, InterruptPoller& poller,
             JointScratch& scratch, const JointEffects& out) const override {
        JointWalk<HasMissing, HasCategories, Matrix>(this->tree_, this->matrix_, tree, out, scratch)
            .run(rows, n, poller);
    }
};

}  // namespace

std::unique_ptr<Projector> RowMatrix::make_sobol_projector(bool has_categories) const {
    return make<Projector, SobolProjectorOf>(has_categories);
}

std::unique_ptr<JointWalker> RowMatrix::make_joint_walker(bool has_categories) const {
    return make<JointWalker, JointWalkerOf>(has_categories);
}

}  // namespace truewood
