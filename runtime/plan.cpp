#include "runtime/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/io/reader.h"
#include "ops/portable.h"
#include "runtime/builder.h"
#include "runtime/plan_impl.h"

namespace attune {
namespace {

std::optional<size_t> find(const std::vector<Plan::Port>& ports, std::string_view name) {
  const auto it = std::find_if(ports.begin(), ports.end(), [&](const Plan::Port& p) { return p.name == name; });
  if (it == ports.end()) return std::nullopt;
  return static_cast<size_t>(it - ports.begin());
}

}  // namespace

Plan::Plan() : impl_(std::make_unique<Impl>()) {}
Plan::~Plan() = default;

const std::vector<Plan::Port>& Plan::inputs() const { return impl_->inputs; }
const std::vector<Plan::Port>& Plan::outputs() const { return impl_->outputs; }
std::optional<size_t> Plan::find_input(std::string_view name) const { return find(impl_->inputs, name); }
std::optional<size_t> Plan::find_output(std::string_view name) const { return find(impl_->outputs, name); }

std::shared_ptr<const Plan> Plan::compile(const Model& model, const PlanOptions& options) {
  const std::shared_ptr<Plan> plan(new Plan);
  Impl& impl = *plan->impl_;
  for (const Value* v : model.graph->inputs()) {
    const bool conditional = std::all_of(v->uses().begin(), v->uses().end(),
                                         [&](const Use& u) { return u.node->graph() != model.graph.get(); });
    impl.inputs.push_back({std::string(v->name()), v->type(), v->default_value() != nullptr, conditional});
    impl.fixed.push_back(options.fixed_inputs.contains(std::string(v->name())));
    impl.defaults.push_back(v->default_value() ? std::optional<Tensor>(*v->default_value()) : std::nullopt);
  }
  for (const Value* v : model.graph->outputs()) impl.outputs.push_back({std::string(v->name()), v->type()});
  for (const std::string& name : options.fixed_inputs)
    if (!plan->find_input(name))
      throw Error(Error::Kind::kInvalidArgument, fmt::format("fixed input '{}': the model has no such input", name));

  using Activations = KernelOptions::Activations;
  KernelOptions kernels = options.kernels;
  if (const auto it = model.metadata.find(std::string(kActivationsKey)); it != model.metadata.end())
    kernels.activations = it->second == "int8"    ? Activations::kInt8
                          : it->second == "int16" ? Activations::kInt16
                                                  : Activations::kFloat;
  const bool rounds = kernels.activations != Activations::kFloat && kernels.pack_weights;
  const PreparedGraph prepared(model, options.fixed_inputs, rounds);
  BuildState state{prepared, options, kernels, {}, {}};
  ProgramBuilder builder(state, prepared.graph());
  builder.prepare();
  std::reverse(state.unsupported.begin(), state.unsupported.end());
  if (!state.unsupported.empty()) throw Error(Error::Kind::kUnsupported, describe(state.unsupported));
  builder.finish({});
  impl.programs = std::move(state.programs);
  impl.check = std::make_unique<InputCheck>(impl.inputs);
  impl.index_limits = index_limits(*model.graph);
  return plan;
}

std::shared_ptr<const Plan> Plan::load(const std::filesystem::path& file, const PlanOptions& options) {
  Model model = read_model(file);
  read_portable(model);
  return within([&] { return file.string(); }, [&] { return compile(model, options); });
}

}  // namespace attune
