// A value of no known element type is written without one: other readers refuse a tensor of type 0.
#include <gtest/gtest.h>

#include "graph/io/onnx_protos.h"
#include "graph/io/text.h"
#include "graph/io/writer.h"

namespace attune {
namespace {

TEST(UntypedValue, HasNoInfo) {
  Model model = parse_model(R"(<ir_version: 8, opset_import: ["" : 17, "other" : 1]>
    g (float[B,T] x) => (float[B,T] y) { h = other.Unknown (x) y = other.Unknown (h) })");
  Value* h = model.graph->outputs()[0]->producer()->input(0);
  h->set_type(ValueType::of(DataType::kUndefined, Dims{Dim(2), Dim(3)}));
  onnx::ModelProto proto;
  ASSERT_TRUE(proto.ParseFromString(serialize_model(model)));
  for (const auto& info : proto.graph().value_info())
    EXPECT_NE(info.type().tensor_type().elem_type(), 0) << info.name();
}

}  // namespace
}  // namespace attune
