// Writes the pages that come from the program itself: docs/operators.md from the schemas and the table of kernels,
// docs/passes.md from the pipeline.
//   attune_tables DOCS [--update]
// Compares the pages with those in the folder; --update writes them.
#include <fmt/format.h>
#include <onnx/defs/schema.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "ops/op.h"
#include "ops/schema/schemas.h"
#include "passes/pass.h"

namespace {

namespace fs = std::filesystem;
using onnx::AttributeProto;
using onnx::OpSchema;

std::string list(const std::vector<std::string>& items) { return fmt::format("{}", fmt::join(items, ", ")); }

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string default_of(const OpSchema::Attribute& attribute) {
  const AttributeProto& a = attribute.default_value;
  if (attribute.required) return "required";
  if (a.name().empty()) return "";
  switch (a.type()) {
    case AttributeProto::INT:
      return fmt::format("{}", a.i());
    case AttributeProto::FLOAT:
      return fmt::format("{:g}", a.f());
    case AttributeProto::STRING:
      return "`" + a.s() + "`";
    case AttributeProto::INTS:
      return fmt::format("[{}]", fmt::join(a.ints(), ", "));
    default:
      return "";
  }
}

std::string type_name(AttributeProto::AttributeType type) {
  std::string name = AttributeProto::AttributeType_Name(type);
  for (char& c : name) c = static_cast<char>(std::tolower(c));
  return name;
}

void write_ports(std::ostream& out, const char* title, const std::vector<OpSchema::FormalParameter>& ports) {
  out << "\n" << title << ":\n\n| # | name | type | | |\n|---|---|---|---|---|\n";
  for (size_t i = 0; i < ports.size(); ++i)
    out << fmt::format("| {} | {} | {} | {} | {} |\n", i, ports[i].GetName(), ports[i].GetTypeStr(),
                       ports[i].GetOption() == OpSchema::Optional ? "optional" : "",
                       escaped(ports[i].GetDescription()));
}

void write_schema(std::ostream& out, const OpSchema& schema) {
  out << "\n## " << schema.domain() << "::" << schema.Name() << ", version " << schema.since_version() << "\n"
      << schema.doc();
  write_ports(out, "Inputs", schema.inputs());
  write_ports(out, "Outputs", schema.outputs());
  if (!schema.attributes().empty()) {
    out << "\nAttributes:\n\n| name | type | default | |\n|---|---|---|---|\n";
    for (const auto& [name, a] : schema.attributes())
      out << fmt::format("| {} | {} | {} | {} |\n", name, type_name(a.type), default_of(a), escaped(a.description));
  }
  out << "\nTypes:\n\n";
  for (const auto& t : schema.typeConstraintParams())
    out << fmt::format("- {}: {}\n", t.type_param_str, list(t.allowed_type_strs));
  std::vector<std::string> opsets;
  for (const int opset : schema.context_dependent_function_opset_versions()) opsets.push_back(std::to_string(opset));
  out << "\nFunction body in standard operators of opset " << list(opsets) << ".\n";
}

// Domain and type to the versions with a kernel of their own.
std::map<std::string, std::map<std::string, std::vector<std::string>>> kernels() {
  std::map<std::string, std::map<std::string, std::vector<std::string>>> table;
  for (const attune::OpDef& op : attune::all_ops())
    table[op.domain.empty() ? "ai.onnx" : std::string(op.domain)][std::string(op.type)].push_back(
        std::to_string(op.since_version));
  return table;
}

std::string operators_page() {
  attune::register_schemas();
  std::ostringstream out;
  out << "# Operators\n\nWritten by `attune_tables` from the schemas; don't edit.\n";
  std::map<std::string, OpSchema> ours;
  for (const OpSchema& schema : onnx::OpSchemaRegistry::get_all_schemas())
    if (schema.domain() == "ai.attune") ours.emplace(schema.Name(), schema);
  for (const auto& [name, schema] : ours) write_schema(out, schema);
  out << "\n## Kernels\n\nOperators that run by a kernel of their own, and the versions from which each means "
         "something "
         "else. Others run by ONNX's function body, if they have one; operators of attention of com.microsoft become "
         "`ai.attune::Attention`, those of its quantiser, FusedConv and those of com.microsoft.nchwc standard "
         "operators.\n";
  for (const auto& [domain, types] : kernels()) {
    out << "\n" << domain << ":\n\n| operator | since version |\n|---|---|\n";
    for (const auto& [type, versions] : types) out << fmt::format("| {} | {} |\n", type, list(versions));
  }
  return out.str();
}

std::string passes_page() {
  std::ostringstream out;
  out << "# Passes\n\nWritten by `attune_tables` from the pipeline, in order; don't edit.\n\n| pass | |\n|---|---|\n";
  for (const attune::Pass& pass : attune::pipeline())
    out << fmt::format("| {} | {} |\n", pass.name, escaped(pass.description));
  return out.str();
}

std::string read(const fs::path& file) {
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

int main(int argc, char** argv) {
  const bool update = argc == 3 && std::strcmp(argv[2], "--update") == 0;
  if (argc != 2 && !update) {
    fmt::print(stderr, "attune_tables DOCS [--update]\n");
    return 2;
  }
  bool same = true;
  for (const auto& [name, page] : {std::pair("operators.md", operators_page()), {"passes.md", passes_page()}}) {
    const fs::path file = fs::path(argv[1]) / name;
    if (update) {
      std::ofstream(file) << page;
    } else if (read(file) != page) {
      same = false;
      fmt::print("{} isn't what the program says: attune_tables DOCS --update writes it\n", file.string());
    }
  }
  return same ? 0 : 1;
}
