// Any location, offset and length of external data, one a line: whatever is read lies within the model's folder.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "graph/io/onnx_protos.h"
#include "graph/io/reader.h"

namespace {

namespace fs = std::filesystem;

// A folder with a secret, and in it a model's folder with a file and with links out of it.
class Folders {
 public:
  Folders() {
    std::string name = (fs::temp_directory_path() / "attune-fuzz-XXXXXX").string();
    if (!::mkdtemp(name.data())) std::abort();
    root_ = name;
    fs::create_directories(model() / "sub");
    std::ofstream(root_ / "secret") << std::string(64, 's');
    std::ofstream(model() / "data") << std::string(64, 'd');
    std::ofstream(model() / "sub/data") << std::string(64, 'd');
    fs::create_symlink("../secret", model() / "link");
    fs::create_directory_symlink("..", model() / "up");
  }
  ~Folders() {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }
  fs::path model() const { return root_ / "model"; }

 private:
  fs::path root_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Folders folders;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  onnx::ModelProto proto;
  proto.set_ir_version(10);
  proto.add_opset_import()->set_version(21);
  auto& tensor = *proto.mutable_graph()->add_initializer();
  tensor.set_name("w");
  tensor.set_data_type(onnx::TensorProto::UINT8);
  tensor.add_dims(16);
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  for (const char* key : {"location", "offset", "length"}) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    auto& entry = *tensor.add_external_data();
    entry.set_key(key);
    entry.set_value(std::string(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  try {
    const attune::Model model = attune::read_model_bytes(proto.SerializeAsString(), folders.model());
    for (const int64_t byte : model.graph->constants().front()->constant()->to_int64())
      if (byte != 'd') std::abort();
  } catch (const attune::Error&) {
  }
  return 0;
}
