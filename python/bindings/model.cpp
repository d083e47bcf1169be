#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <mutex>

#include "python/bindings/bindings.h"
#include "python/bindings/tensors.h"
#include "runtime/plan.h"
#include "runtime/session.h"

namespace attune::python {
namespace {

namespace fs = std::filesystem;

// A plan with a session for each thread that runs at the same time.
class Model_ {
 public:
  Model_(std::shared_ptr<const Plan> plan, int threads) : plan_(std::move(plan)) { options_.threads = threads; }

  const Plan& plan() const { return *plan_; }

  TensorMap run(TensorMap inputs, const std::vector<std::string>& wanted) {
    std::unique_ptr<Session> session = take();
    TensorMap outputs = session->run(std::move(inputs), wanted);
    const std::lock_guard<std::mutex> lock(mutex_);
    idle_.push_back(std::move(session));
    return outputs;
  }

 private:
  std::unique_ptr<Session> take() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<Session> session = std::move(idle_.back());
        idle_.pop_back();
        return session;
      }
    }
    return std::make_unique<Session>(plan_, options_);
  }

  std::shared_ptr<const Plan> plan_;
  SessionOptions options_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Session>> idle_;
};

nb::tuple shape_of(const Plan::Port& port) {
  nb::list dims;
  if (port.type.tensor.shape) {
    for (const Dim& d : *port.type.tensor.shape) {
      if (const auto c = d.constant()) {
        dims.append(*c);
      } else if (d.known()) {
        dims.append(nb::str(d.to_string().c_str()));
      } else {
        dims.append(nb::none());
      }
    }
  }
  return nb::tuple(dims);
}

}  // namespace

void bind_model(nb::module_& m) {
  nb::class_<Plan::Port>(m, "Port", "An input or output of a model.")
      .def_ro("name", &Plan::Port::name)
      .def_ro("optional", &Plan::Port::optional)
      .def_prop_ro("type", [](const Plan::Port& p) { return std::string(name(p.type.tensor.element)); })
      .def_prop_ro("shape", shape_of, nb::sig("def shape(self) -> tuple[int | str | None, ...]"))
      .def("__repr__", [](const Plan::Port& p) { return "<Port " + p.name + ": " + p.type.to_string() + ">"; });
  nb::class_<Model_>(m, "Model")
      .def(
          "__init__",
          [](Model_* self, const fs::path& file, int threads) { new (self) Model_(Plan::load(file), threads); },
          nb::arg("file"), nb::kw_only(), nb::arg("threads") = 0, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("inputs", [](const Model_& model) { return model.plan().inputs(); })
      .def_prop_ro("outputs", [](const Model_& model) { return model.plan().outputs(); })
      .def(
          "run",
          [](Model_& model, const nb::dict& inputs, const std::vector<std::string>& outputs) {
            TensorMap given = to_tensors(inputs), results;
            {
              const nb::gil_scoped_release release;
              results = model.run(std::move(given), outputs);
            }
            return to_dict(results);
          },
          nb::arg("inputs"), nb::arg("outputs"));
}

}  // namespace attune::python
