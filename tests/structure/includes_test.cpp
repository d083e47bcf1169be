// The one-way dependencies between the folders, checked on what the files include.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

namespace attune {
namespace {

namespace fs = std::filesystem;
using testing::IsEmpty;

// A part of the tree: what starts with `path`. The longest path that fits a file is its part.
struct Part {
  std::string_view path;
  std::vector<std::string_view> may_include = {};  // paths of parts; empty: any
  bool onnx = false;                               // may include headers of ONNX and Protocol Buffers
  bool dnnl = false;                               // may include oneDNN's headers
};

const std::vector<Part>& parts() {
  static const std::vector<std::string_view> model = {"graph/"};
  static const std::vector<std::string_view> kernels = {"graph/", "ops/", "ops/support/dnnl"};
  static const std::vector<std::string_view> schemas = {"graph/",           "graph/io/",  "ops/",
                                                        "ops/support/dnnl", "ops/infer/", "ops/schema/"};
  static const auto with = [](std::vector<std::string_view> list, std::string_view part) {
    list.push_back(part);
    return list;
  };
  static const std::vector<Part> all = {
      {.path = "graph/", .may_include = model},
      {.path = "graph/io/", .may_include = {"graph/", "graph/io/"}, .onnx = true},
      {.path = "ops/", .may_include = kernels},
      {.path = "ops/support/dnnl", .may_include = kernels, .dnnl = true},
      {.path = "ops/hosts/", .may_include = with(kernels, "ops/hosts/")},
      {.path = "ops/hosts/openvino/",
       .may_include = {"graph/", "ops/", "ops/infer/", "ops/hosts/", "ops/hosts/openvino/"}},
      {.path = "ops/schema/", .may_include = schemas, .onnx = true},
      {.path = "ops/infer/", .may_include = schemas, .onnx = true},
      {.path = "passes/", .may_include = with(schemas, "passes/")},
      {.path = "runtime/", .may_include = with(schemas, "runtime/")},
      {.path = "convert/", .may_include = with(with(with(schemas, "passes/"), "runtime/"), "convert/")},
      {.path = "cli/"},
      {.path = "python/"},
      {.path = "examples/"},
      {.path = "bench/", .dnnl = true},
      {.path = "tests/", .onnx = true, .dnnl = true},
      {.path = "attune.h"},
  };
  return all;
}

// Null for what is in no part: headers of libraries.
const Part* part_of(std::string_view path) {
  const Part* found = nullptr;
  for (const Part& part : parts()) {
    if (path.starts_with(part.path) && (!found || part.path.size() > found->path.size())) found = &part;
  }
  return found;
}

// "" if `file` may include `header`, else why not.
std::string complaint(const std::string& file, const std::string& header) {
  const Part* from = part_of(file);
  if (!from) return fmt::format("{} is in no part", file);
  if (!from->onnx && (header.starts_with("onnx/") || header.starts_with("google/"))) {
    return fmt::format("{} includes {}: ONNX and Protocol Buffers belong to graph/io, ops/schema and ops/infer", file,
                       header);
  }
  if (!from->dnnl && (header.starts_with("oneapi/dnnl/") || header.starts_with("dnnl"))) {
    return fmt::format("{} includes {}: oneDNN belongs to ops/support/dnnl", file, header);
  }
  const Part* to = part_of(header);
  if (!to || from->may_include.empty()) return {};
  for (const std::string_view allowed : from->may_include) {
    if (to->path == allowed) return {};
  }
  return fmt::format("{} includes {}: {} may not depend on {}", file, header, from->path, to->path);
}

std::vector<std::string> complaints_about(const fs::path& root) {
  static const std::regex include(R"(^\s*#\s*include\s*["<]([^">]+)[">])");
  std::vector<std::string> found;
  for (const char* folder :
       {"graph", "ops", "passes", "runtime", "convert", "cli", "python", "tests", "examples", "bench"}) {
    if (!fs::exists(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.path().extension() != ".h" && entry.path().extension() != ".cpp") continue;
      const std::string file = fs::relative(entry.path(), root).generic_string();
      std::ifstream in(entry.path());
      std::smatch match;
      for (std::string line; std::getline(in, line);) {
        if (!std::regex_search(line, match, include)) continue;
        if (std::string why = complaint(file, match[1]); !why.empty()) found.push_back(std::move(why));
      }
    }
  }
  return found;
}

TEST(Includes, FollowTheOneWayDependencies) { EXPECT_THAT(complaints_about(ATTUNE_SOURCE_DIR), IsEmpty()); }

TEST(Includes, WrongDirectionsAreFound) {
  struct Row {
    const char *file, *header;
    bool allowed;
  };
  for (const Row& row : {
           Row{"graph/graph.cpp", "graph/dim.h", true},
           Row{"graph/graph.cpp", "ops/op.h", false},
           Row{"graph/graph.cpp", "graph/io/reader.h", false},
           Row{"graph/graph.cpp", "onnx/onnx_pb.h", false},
           Row{"graph/io/reader.cpp", "onnx/onnx_pb.h", true},
           Row{"graph/io/reader.cpp", "ops/op.h", false},
           Row{"ops/relu.cpp", "graph/tensor.h", true},
           Row{"ops/relu.cpp", "ops/support/dnnl.h", true},
           Row{"ops/relu.cpp", "ops/infer/infer.h", false},
           Row{"ops/relu.cpp", "graph/io/reader.h", false},
           Row{"ops/relu.cpp", "passes/pass.h", false},
           Row{"ops/relu.cpp", "runtime/plan.h", false},
           Row{"ops/relu.cpp", "oneapi/dnnl/dnnl.hpp", false},
           Row{"ops/support/dnnl.cpp", "oneapi/dnnl/dnnl.hpp", true},
           Row{"ops/infer/infer.cpp", "google/protobuf/message.h", true},
           Row{"passes/fold_constants.cpp", "ops/evaluate.h", true},
           Row{"passes/fold_constants.cpp", "runtime/session.h", false},
           Row{"runtime/session.cpp", "ops/kernel.h", true},
           Row{"runtime/session.cpp", "passes/pass.h", false},
           Row{"runtime/session.cpp", "cli/main.h", false},
           Row{"cli/convert.cpp", "passes/pass.h", true},
           Row{"cli/convert.cpp", "onnx/onnx_pb.h", false},
           Row{"tests/runtime/session_test.cpp", "passes/pass.h", true},
           Row{"elsewhere/file.cpp", "graph/graph.h", false},
       }) {
    EXPECT_EQ(complaint(row.file, row.header).empty(), row.allowed) << row.file << " includes " << row.header;
  }
}

}  // namespace
}  // namespace attune
