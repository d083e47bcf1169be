// libattune_onnxruntime.so in ONNX Runtime itself, through its C interface, from 8 threads at once.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "ops/hosts/onnxruntime/ort_api.h"

namespace attune::testing {
namespace {

using ort::Api;
using ort::ApiBase;
using ort::Status;

struct Env;
struct Session;
struct MemoryInfo;
struct Tensor;

// Slots that a program uses, beside those of the plug-in.
constexpr auto kGetErrorMessage = static_cast<ort::Slot>(2);
constexpr auto kCreateEnv = static_cast<ort::Slot>(3);
constexpr auto kCreateSession = static_cast<ort::Slot>(7);
constexpr auto kRun = static_cast<ort::Slot>(9);
constexpr auto kCreateSessionOptions = static_cast<ort::Slot>(10);
constexpr auto kCreateTensorWithData = static_cast<ort::Slot>(49);
constexpr auto kCreateCpuMemoryInfo = static_cast<ort::Slot>(69);
constexpr auto kReleaseEnv = static_cast<ort::Slot>(92);
constexpr auto kReleaseMemoryInfo = static_cast<ort::Slot>(94);
constexpr auto kReleaseSession = static_cast<ort::Slot>(95);
constexpr auto kReleaseValue = static_cast<ort::Slot>(96);
constexpr auto kReleaseSessionOptions = static_cast<ort::Slot>(100);
constexpr auto kRegisterCustomOpsLibrary = static_cast<ort::Slot>(228);

// Null where the tests' Python environment has no such library.
const Api* load() {
  namespace fs = std::filesystem;
  const fs::path folder = ATTUNE_ONNXRUNTIME_FOLDER;
  if (!fs::exists(folder)) return nullptr;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().rfind("libonnxruntime.so", 0) != 0) continue;
    void* library = dlopen(entry.path().c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) throw std::runtime_error(dlerror());
    const auto base = reinterpret_cast<const ApiBase* (*)()>(dlsym(library, "OrtGetApiBase"))();
    return base->get_api(ort::kApiVersion);
  }
  return nullptr;
}

void check(const Api* api, Status* status) {
  if (!status) return;
  const std::string message = ort::call<kGetErrorMessage, const char*(const Status*)>(api, status);
  ort::call<ort::kReleaseStatus, void(Status*)>(api, status);
  throw std::runtime_error(message);
}

std::vector<float> waves(size_t count, float step) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = std::sin(step * static_cast<float>(i));
  return values;
}

// attention.onnx on one thread's own values: q (1, 1, T, 4), k and v (1, 1, S, 4).
void run(const Api* api, Session* session, const MemoryInfo* memory, size_t queries, size_t keys, float step) {
  std::array<std::vector<float>, 3> data = {waves(queries * 4, step), waves(keys * 4, 0.7F), waves(keys * 4, 1.3F)};
  std::array<Tensor*, 3> inputs{};
  for (size_t i = 0; i < 3; ++i) {
    const std::array<int64_t, 4> shape = {1, 1, static_cast<int64_t>(data[i].size() / 4), 4};
    check(api,
          ort::call<kCreateTensorWithData,
                    Status*(const MemoryInfo*, void*, size_t, const int64_t*, size_t, int, Tensor**)>(
              api, memory, data[i].data(), data[i].size() * sizeof(float), shape.data(), shape.size(), 1, &inputs[i]));
  }
  const std::array<const char*, 3> names = {"q", "k", "v"};
  const std::array<const char*, 1> wanted = {"y"};
  std::array<Tensor*, 1> outputs{};
  check(api,
        ort::call<kRun, Status*(Session*, const void*, const char* const*, Tensor* const*, size_t, const char* const*,
                                size_t, Tensor**)>(api, session, nullptr, names.data(), inputs.data(), size_t{3},
                                                   wanted.data(), size_t{1}, outputs.data()));
  void* result = nullptr;
  check(api, ort::call<ort::kGetTensorMutableData, Status*(Tensor*, void**)>(api, outputs[0], &result));
  const auto* y = static_cast<const float*>(result);
  for (size_t t = 0; t < queries; ++t) {
    std::array<double, 4> context{};
    double sum = 0;
    for (size_t i = 0; i < keys; ++i) {
      double score = 0;
      for (size_t e = 0; e < 4; ++e) score += 0.25 * double{data[0][t * 4 + e]} * double{data[1][i * 4 + e]};
      sum += score = std::exp(score);
      for (size_t e = 0; e < 4; ++e) context[e] += score * double{data[2][i * 4 + e]};
    }
    for (size_t e = 0; e < 4; ++e) EXPECT_NEAR(double{y[t * 4 + e]}, context[e] / sum, 1e-5);
  }
  for (Tensor* t : {inputs[0], inputs[1], inputs[2], outputs[0]}) ort::call<kReleaseValue, void(Tensor*)>(api, t);
}

TEST(OnnxRuntimeLibrary, EightThreadsShareASession) {
  const Api* api = load();
  if (!api) GTEST_SKIP() << "no ONNX Runtime in " << ATTUNE_ONNXRUNTIME_FOLDER;
  Env* env = nullptr;
  ort::SessionOptions* options = nullptr;
  Session* session = nullptr;
  MemoryInfo* memory = nullptr;
  check(api, ort::call<kCreateEnv, Status*(int, const char*, Env**)>(api, 3, "test", &env));
  check(api, ort::call<kCreateSessionOptions, Status*(ort::SessionOptions**)>(api, &options));
  check(api, ort::call<kRegisterCustomOpsLibrary, Status*(ort::SessionOptions*, const char*)>(
                 api, options, ATTUNE_BINARY_DIR "/libattune_onnxruntime.so"));
  check(api, ort::call<kCreateSession, Status*(Env*, const char*, const ort::SessionOptions*, Session**)>(
                 api, env, ATTUNE_SOURCE_DIR "/tests/hosts/attention.onnx", options, &session));
  check(api, ort::call<kCreateCpuMemoryInfo, Status*(int, int, MemoryInfo**)>(api, 0, 0, &memory));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 8; ++i)
    threads.emplace_back([=] {
      for (size_t call = 0; call < 4; ++call)
        run(api, session, memory, 1 + 9 * i, 5 + call * 60, 0.1F * static_cast<float>(i + 1));
    });
  for (std::thread& t : threads) t.join();
  ort::call<kReleaseSession, void(Session*)>(api, session);
  ort::call<kReleaseMemoryInfo, void(MemoryInfo*)>(api, memory);
  ort::call<kReleaseSessionOptions, void(ort::SessionOptions*)>(api, options);
  ort::call<kReleaseEnv, void(Env*)>(api, env);
}

}  // namespace
}  // namespace attune::testing
