// The cases of passes: text files cases/PASS/NAME.txt with a model `before`, and the model `after`, or that there is
// none: "no match: part: reason", or "no match" for any reason.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "passes/passes.h"

namespace attune::test {

namespace fs = std::filesystem;

inline fs::path cases() { return fs::path(ATTUNE_SOURCE_DIR) / "tests/passes/cases"; }

struct Case {
  std::string pass, before, after;
  bool matches = true;
  std::string no_match;  // "part: reason"; empty: any
};

inline Case read_case(const fs::path& file) {
  std::ifstream in(file);
  Case c;
  c.pass = file.parent_path().filename().string();
  std::string* section = nullptr;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("#")) continue;
    if (line.starts_with("no match")) {
      c.matches = false;
      c.no_match = line.substr(std::min<size_t>(line.size(), 10));
      section = nullptr;
    } else if (line == "before:" || line == "after:") {
      section = line == "before:" ? &c.before : &c.after;
    } else if (section) {
      *section += line + "\n";
    }
  }
  return c;
}

// The passes that are tested one at a time; `simplify` stands between them in the pipeline. "optimize" is all of it.
inline size_t optimize_all(PassContext& context) {
  optimize(context.model, context.report, context.options);
  if (context.misses) *context.misses = context.report.near_misses;
  return context.report.rewrites.size();
}

inline size_t run_pass(const std::string& name, PassContext& context) {
  static const std::map<std::string, size_t (*)(PassContext&)> kPasses = {
      {"eliminate_common_subexpressions", eliminate_common_subexpressions},
      {"eliminate_identities", eliminate_identities},
      {"fold_constants", fold_constants},
      {"fuse_additive_attention", fuse_additive_attention},
      {"fuse_attention", fuse_attention},
      {"fuse_attention_cache", fuse_attention_cache},
      {"fuse_attention_groups", fuse_attention_groups},
      {"fuse_attention_heads", fuse_attention_heads},
      {"fuse_attention_scale", fuse_attention_scale},
      {"fuse_gelu", fuse_gelu},
      {"fuse_linear", fuse_linear},
      {"fuse_normalization", fuse_normalization},
      {"fuse_position_bias", fuse_position_bias},
      {"fuse_position_embedding", fuse_position_embedding},
      {"fuse_qkv_projection", fuse_qkv_projection},
      {"fuse_residual_normalization", fuse_residual_normalization},
      {"inline_static_if", inline_static_if},
      {"normalize_folded_rows", normalize_folded_rows},
      {"normalize_forms", normalize_forms},
      {"normalize_projections", normalize_projections},
      {"optimize", optimize_all},
      {"simplify_masks", simplify_masks},
      {"simplify_shapes", simplify_shapes}};
  const auto it = kPasses.find(name);
  if (it == kPasses.end()) throw Error(Error::Kind::kInvalidArgument, "there is no pass " + name);
  const size_t changes = it->second(context);
  eliminate_dead(context);
  return changes;
}

inline std::vector<fs::path> case_files() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(cases()))
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

inline std::string case_name(const testing::TestParamInfo<fs::path>& info) {
  return info.param.parent_path().filename().string() + "_" + info.param.stem().string();
}

}  // namespace attune::test
