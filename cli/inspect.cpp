#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "cli/attention_summary.h"
#include "cli/command.h"
#include "graph/io/reader.h"
#include "ops/infer/infer.h"

namespace attune::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Port {
  std::string name, type;
};

struct Summary {
  std::string file, producer;
  int64_t ir_version = 0;
  std::map<std::string, int64_t> opsets;
  std::vector<Port> inputs, outputs;
  std::map<std::string, size_t> operators;  // with domain, bodies and functions included
  size_t nodes = 0, nodes_in_bodies = 0, functions = 0;
  uint64_t parameters = 0, bytes = 0;  // of distinct tensors
  std::vector<AttentionSummary> attentions;
  std::string inference_error;  // why shapes are missing
};

std::vector<Port> ports(std::span<Value* const> values) {
  std::vector<Port> out;
  for (const Value* v : values) out.push_back({std::string(v->name()), v->type().to_string()});
  return out;
}

void count_tensors(const Graph& graph, std::set<const void*>& seen, Summary& s) {
  const auto count = [&](const Tensor& t) {
    const void* identity = t.type() == DataType::kString ? static_cast<const void*>(&t.strings()) : t.raw();
    if (!t.defined() || !seen.insert(identity).second) return;
    s.parameters += static_cast<uint64_t>(t.count());
    s.bytes += t.bytes();
  };
  for (const auto& v : graph.constants()) count(*v->default_value());
  for (const Value* v : graph.inputs())
    if (v->default_value()) count(*v->default_value());
  for (const auto& n : graph.nodes()) {
    if (const auto* value = n->find<Tensor>("value"); value && n->is("Constant")) count(*value);
    for (const Graph* body : n->subgraphs()) count_tensors(*body, seen, s);
  }
}

void count_nodes(const Graph& graph, bool in_body, Summary& s) {
  for (const auto& n : graph.nodes()) {
    ++(in_body ? s.nodes_in_bodies : s.nodes);
    ++s.operators[n->domain().empty() ? n->type() : n->domain() + "." + n->type()];
    for (const Graph* body : n->subgraphs()) count_nodes(*body, true, s);
  }
}

Summary summarize(const fs::path& file) {
  const Model model = read_model(file);
  Summary s;
  s.file = file.string();
  s.producer = model.producer_name + (model.producer_version.empty() ? "" : " " + model.producer_version);
  s.ir_version = model.ir_version;
  s.opsets = model.opset_imports;
  s.inputs = ports(model.graph->inputs());
  s.outputs = ports(model.graph->outputs());
  s.functions = model.functions.size();
  count_nodes(*model.graph, false, s);
  for (const Function& f : model.functions) count_nodes(*f.body, true, s);
  std::set<const void*> seen;
  count_tensors(*model.graph, seen, s);
  for (const Function& f : model.functions) count_tensors(*f.body, seen, s);
  try {
    const Inference inference(model);
  } catch (const Error& e) {
    s.inference_error = e.what();  // the rest can still be said
  }
  s.attentions = find_attentions(*model.graph);
  return s;
}

// Most frequent first.
std::vector<std::pair<std::string, size_t>> by_count(const std::map<std::string, size_t>& operators) {
  std::vector<std::pair<std::string, size_t>> out(operators.begin(), operators.end());
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return out;
}

void print_ports(const char* title, const std::vector<Port>& ports) {
  print_line(fmt::format("  {}", title));
  size_t width = 0;
  for (const Port& p : ports) width = std::max(width, p.name.size());
  for (const Port& p : ports) print_line(fmt::format("    {:<{}}  {}", p.name, width, p.type));
}

std::string feed_text(const AttentionFeed& feed) {
  std::string text = "'" + feed.source + "'";
  if (feed.projected) text += ", projected";
  if (!feed.past.empty()) text += ", appended to '" + feed.past + "'";
  return text;
}

void print_attentions(const std::vector<AttentionSummary>& attentions) {
  print_line(fmt::format("  attentions ({})", attentions.size()));
  for (const AttentionSummary& a : attentions) {
    print_line(fmt::format("    {}{}", a.node, a.place.empty() ? "" : " in " + a.place));
    print_line(fmt::format("      {}{}{} score, heads {}, head width {}, value width {}",
                           a.form == "softmax" ? "" : a.form + ", ", a.kind.empty() ? "" : a.kind + ", ", a.score,
                           a.heads, a.head_width, a.value_width));
    print_line("      query  " + feed_text(a.query));
    print_line("      key    " + feed_text(a.key));
    print_line("      value  " + feed_text(a.value));
    for (const std::string& mask : a.masks) print_line("      mask   " + mask);
  }
}

void print_text(const Summary& s) {
  print_line(s.file);
  std::vector<std::string> opsets;
  for (const auto& [domain, version] : s.opsets)
    opsets.push_back(fmt::format("{} {}", domain.empty() ? "ai.onnx" : domain, version));
  print_line(fmt::format("  IR {}, opset {}{}", s.ir_version, fmt::join(opsets, ", "),
                         s.producer.empty() ? "" : ", by " + s.producer));
  print_line(fmt::format("  {} parameters, {}", s.parameters, bytes_text(static_cast<double>(s.bytes))));
  print_ports("inputs", s.inputs);
  print_ports("outputs", s.outputs);
  std::string where;
  if (s.nodes_in_bodies > 0) where = fmt::format(", {} more in bodies", s.nodes_in_bodies);
  if (s.functions > 0) where += fmt::format(", {} functions", s.functions);
  print_line(fmt::format("  operators ({} nodes{})", s.nodes, where));
  for (const auto& [name, count] : by_count(s.operators)) print_line(fmt::format("    {:>6}  {}", count, name));
  print_attentions(s.attentions);
  if (!s.inference_error.empty()) print_line("  shapes can't be inferred: " + s.inference_error);
}

json to_json(const std::vector<Port>& ports) {
  json out = json::array();
  for (const Port& p : ports) out.push_back({{"name", p.name}, {"type", p.type}});
  return out;
}

json to_json(const AttentionFeed& feed) {
  return {{"source", feed.source}, {"projected", feed.projected}, {"past", feed.past}};
}

json to_json(const AttentionSummary& a) {
  return {{"node", a.node},
          {"place", a.place},
          {"form", a.form},
          {"kind", a.kind},
          {"score", a.score},
          {"heads", a.heads},
          {"head_width", a.head_width},
          {"value_width", a.value_width},
          {"query", to_json(a.query)},
          {"key", to_json(a.key)},
          {"value", to_json(a.value)},
          {"masks", a.masks}};
}

json to_json(const Summary& s) {
  json attentions = json::array();
  for (const AttentionSummary& a : s.attentions) attentions.push_back(to_json(a));
  json opsets = json::object();
  for (const auto& [domain, version] : s.opsets) opsets[domain.empty() ? "ai.onnx" : domain] = version;
  return {{"file", s.file},
          {"producer", s.producer},
          {"ir_version", s.ir_version},
          {"opsets", opsets},
          {"inputs", to_json(s.inputs)},
          {"outputs", to_json(s.outputs)},
          {"nodes", s.nodes},
          {"nodes_in_bodies", s.nodes_in_bodies},
          {"functions", s.functions},
          {"operators", s.operators},
          {"parameters", s.parameters},
          {"bytes", s.bytes},
          {"attentions", attentions},
          {"inference_error", s.inference_error}};
}

std::vector<fs::path> models_in(const fs::path& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path))
    if (entry.path().extension() == ".onnx") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  if (files.empty())
    throw Error(Error::Kind::kInvalidArgument, fmt::format("{}: the folder has no .onnx file", path.string()));
  return files;
}

struct Options {
  std::string model;
  bool json = false;
};

int inspect(const Options& options) {
  std::vector<Summary> summaries;
  for (const fs::path& file : models_in(options.model)) summaries.push_back(summarize(file));
  if (!options.json) {
    for (const Summary& s : summaries) print_text(s);
  } else if (fs::is_directory(options.model)) {
    json models = json::array();
    for (const Summary& s : summaries) models.push_back(to_json(s));
    print_json({{"folder", options.model}, {"models", models}});
  } else {
    print_json(to_json(summaries.front()));
  }
  return kSuccess;
}

}  // namespace

Action add_inspect(CLI::App& command) {
  const auto options = std::make_shared<Options>();
  command.add_option("MODEL", options->model, "an ONNX file, or a folder of them")->required();
  command.add_flag("--json", options->json, "print JSON");
  return [options] { return inspect(*options); };
}

}  // namespace attune::cli
