#include "ops/support/packed_types.h"

#include <utility>
#include <vector>

#include "ops/evaluate.h"
#include "ops/support/small_types.h"

namespace attune {
Tensor spread_to_bytes(const Tensor& packed, BufferPool* pool) {
  const int bits = element_bits(packed.type());
  Tensor out = Tensor::allocate(DataType::kUInt8, packed.shape(), pool);
  const auto* from = reinterpret_cast<const uint8_t*>(packed.raw());
  auto* to = out.mutable_data<uint8_t>();
  for (int64_t i = 0; i < packed.count(); ++i) to[i] = packed_element(from, i, bits);
  return out;
}

Tensor pack_bytes(const Tensor& bytes, DataType type, BufferPool* pool) {
  const int bits = element_bits(type);
  Tensor out = Tensor::allocate(type, bytes.shape(), pool);
  const auto* from = bytes.data<uint8_t>();
  auto* to = reinterpret_cast<uint8_t*>(out.mutable_raw());
  std::fill_n(to, out.bytes(), uint8_t{0});
  for (int64_t i = 0; i < bytes.count(); ++i) set_packed_element(to, i, bits, from[i]);
  return out;
}

bool is_packed(DataType type) noexcept {
  const int bits = element_bits(type);
  return bits > 0 && bits < 8;
}

bool run_in_bytes(const Kernel& kernel, KernelCall& call, const Tensor& data) {
  const DataType type = data.type();
  if (!is_packed(type)) return false;
  std::vector<Datum> inputs;
  for (size_t i = 0; i < call.input_count(); ++i) {
    const Datum& d = call.datum(i);
    const bool packed = d.kind() == Datum::Kind::kTensor && is_packed(d.tensor().type());
    if (packed && d.tensor().type() != type) fail_input(i, name(type), name(d.tensor().type()));
    inputs.push_back(packed ? Datum(spread_to_bytes(d.tensor(), call.pool())) : d);
  }
  SimpleCall bytes(std::move(inputs), call.output_count(), call.pool());
  for (size_t i = 0; i < call.output_count(); ++i) bytes.set_wanted(i, call.wants(i));
  kernel.run(bytes);
  for (size_t i = 0; i < call.output_count(); ++i) {
    Datum& d = bytes.outputs()[i];
    const bool moved = d.kind() == Datum::Kind::kTensor && d.tensor().type() == DataType::kUInt8;
    if (d.defined()) call.set_datum(i, moved ? Datum(pack_bytes(d.tensor().to_contiguous(), type, call.pool())) : d);
  }
  return true;
}

}  // namespace attune
