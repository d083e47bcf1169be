// libattune_onnxruntime.so through the C interface, from 8 threads at once. All of it is instrumented under sanitizers.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <thread>

#include "tests/hosts/fake_onnxruntime.h"

namespace attune::testing {
namespace {

using ort::CustomOp;
using ort::KernelContext;
using ort::KernelInfo;
using ort::Status;
using ort::Value;
using ::testing::AllOf;
using ::testing::HasSubstr;

using Register = Status*(ort::SessionOptions*, const ort::ApiBase*);

Register* register_function() {
  static void* const library = dlopen(ATTUNE_BINARY_DIR "/libattune_onnxruntime.so", RTLD_NOW | RTLD_LOCAL);
  if (!library) throw std::runtime_error(dlerror());
  return reinterpret_cast<Register*>(dlsym(library, "RegisterCustomOps"));
}

const FakeOnnxRuntime& host() {
  static const FakeOnnxRuntime host;
  return host;
}

const ort::Api* newest(uint32_t version) { return version <= 17 ? host().api() : nullptr; }
const ort::Api* too_old(uint32_t version) { return version <= 16 ? host().api() : nullptr; }
const char* release() { return "1.16.3"; }

const std::vector<const CustomOp*>& operators() {
  static ort::SessionOptions options;
  if (options.domains.empty()) {
    const ort::ApiBase base{newest, release};
    std::unique_ptr<Status> failed(register_function()(&options, &base));
    if (failed) throw std::runtime_error(failed->message);
  }
  return options.domains.at(0)->ops;
}

// The operator of that name for float32.
const CustomOp& find(const std::string& name) {
  for (const CustomOp* op : operators())
    if (op->get_name(op) == name && op->get_input_type(op, 0) == static_cast<int>(DataType::kFloat)) return *op;
  throw std::runtime_error("no " + name);
}

class Kernel {
 public:
  Kernel(const CustomOp& op, const KernelInfo& info) : op_(op) {
    std::unique_ptr<Status> failed(op.create_kernel_v2(&op, host().api(), &info, &kernel_));
    if (failed) throw std::runtime_error(failed->message);
  }
  ~Kernel() { op_.kernel_destroy(kernel_); }
  std::vector<Value> run(std::vector<const Value*> inputs, size_t outputs) const {
    KernelContext context{std::move(inputs), std::vector<Value>(outputs)};
    std::unique_ptr<Status> failed(op_.kernel_compute_v2(kernel_, &context));
    if (failed) throw std::runtime_error(failed->message);
    return context.outputs;
  }

 private:
  const CustomOp& op_;
  void* kernel_ = nullptr;
};

Value waves(std::vector<int64_t> shape, float step) {
  size_t count = 1;
  for (const int64_t d : shape) count *= static_cast<size_t>(d);
  Value v{DataType::kFloat, std::move(shape), std::vector<float>(count)};
  for (size_t i = 0; i < count; ++i) v.data[i] = std::sin(step * static_cast<float>(i));
  return v;
}

// One head of width 8: q (Tq), k and v (Tk), in double.
std::vector<double> attend(const Value& q, const Value& k, const Value& v) {
  const auto queries = static_cast<size_t>(q.shape[2]), keys = static_cast<size_t>(k.shape[2]), width = size_t{8};
  std::vector<double> out(queries * width);
  for (size_t t = 0; t < queries; ++t) {
    std::vector<double> scores(keys);
    double sum = 0;
    for (size_t i = 0; i < keys; ++i) {
      for (size_t e = 0; e < width; ++e) scores[i] += double{q.data[t * width + e]} * double{k.data[i * width + e]};
      scores[i] = std::exp(scores[i] / std::sqrt(8.0));
      sum += scores[i];
    }
    for (size_t i = 0; i < keys; ++i)
      for (size_t e = 0; e < width; ++e) out[t * width + e] += scores[i] / sum * double{v.data[i * width + e]};
  }
  return out;
}

void expect_near(const Value& got, const std::vector<double>& want) {
  ASSERT_EQ(got.data.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(double{got.data[i]}, want[i], 1e-5) << i;
}

TEST(OnnxRuntimePlugin, EightThreadsShareAKernel) {
  const Kernel kernel(find("Attention"), {{"q", "k", "v"}, {"y"}, {}, {}});
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 8; ++thread)
    threads.emplace_back([&kernel, thread] {
      const float step = 0.1F * static_cast<float>(thread + 1);
      // By blocks and by rows, and enough work for several parts.
      for (const int64_t queries : {1, 40}) {
        const Value q = waves({1, 1, queries, 8}, step), k = waves({1, 1, 300, 8}, step), v = waves({1, 1, 300, 8}, 1);
        expect_near(kernel.run({&q, &k, &v}, 1)[0], attend(q, k, v));
      }
    });
}

TEST(OnnxRuntimePlugin, EightThreadsShareWeights) {
  KernelInfo info{{"x", "w"}, {"y"}, {{"activation", std::string("relu")}}, {{1, waves({64, 96}, 0.3F)}}};
  const Kernel kernel(find("Linear"), info);
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 8; ++thread)
    threads.emplace_back([&, thread] {
      const Value x = waves({32, 64}, 0.1F * static_cast<float>(thread + 1));
      const std::vector<float>& w = info.constants.at(1).data;
      std::vector<double> want(32 * 96);
      for (size_t r = 0; r < 32; ++r)
        for (size_t n = 0; n < 96; ++n) {
          double sum = 0;
          for (size_t i = 0; i < 64; ++i) sum += double{x.data[r * 64 + i]} * double{w[i * 96 + n]};
          want[r * 96 + n] = std::max(sum, 0.0);
        }
      for (int call = 0; call < 3; ++call) expect_near(kernel.run({&x, &info.constants.at(1)}, 1)[0], want);
    });
}

TEST(OnnxRuntimePlugin, ErrorsBecomeStatuses) {
  EXPECT_THAT(
      [] {
        Kernel(find("Attention"), {{"q"}, {"y"}, {{"scale", -1.0F}}, {}});
      },
      ::testing::ThrowsMessage<std::runtime_error>(AllOf(HasSubstr("attune"), HasSubstr("scale"))));
  const Kernel kernel(find("Attention"), {{"q", "k", "v"}, {"y"}, {}, {}});
  const Value q = waves({1, 1, 2, 8}, 1), k = waves({1, 1, 3, 5}, 1);
  EXPECT_THAT(
      [&] {
        (void)kernel.run({&q, &k, &k}, 1);
      },
      ::testing::ThrowsMessage<std::runtime_error>(AllOf(HasSubstr("attune"), HasSubstr("key"))));
}

TEST(OnnxRuntimePlugin, AnOlderHostIsToldWhatItLacks) {
  ort::SessionOptions options;
  const ort::ApiBase base{too_old, release};
  const std::unique_ptr<Status> failed(register_function()(&options, &base));
  ASSERT_TRUE(failed);
  EXPECT_THAT(failed->message, AllOf(HasSubstr("1.17"), HasSubstr("1.16.3")));
}

}  // namespace
}  // namespace attune::testing
