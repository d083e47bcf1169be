#include "ops/support/float_tensor.h"

#include "ops/support/half.h"
#include "ops/support/parallel_items.h"

namespace attune {
namespace {

// Between float and another type, in parallel.
template <class From, class To>
void convert_all(const std::byte* from, std::byte* to, int64_t count) {
  const auto* in = reinterpret_cast<const From*>(from);
  auto* out = reinterpret_cast<To*>(to);
  parallel_for(count, kParallelGrain, [&](int64_t begin, int64_t end) {
    if constexpr (std::is_same_v<From, double> || std::is_same_v<To, double>) {
      for (int64_t i = begin; i < end; ++i) out[i] = static_cast<To>(in[i]);
    } else if constexpr (std::is_same_v<From, To>) {
      std::copy(in + begin, in + end, out + begin);
    } else {
      attune::convert(in + begin, out + begin, static_cast<size_t>(end - begin));
    }
  });
}

template <class From>
void convert_to_double(const std::byte* from, double* to, int64_t count) {
  const auto* in = reinterpret_cast<const From*>(from);
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<double>(static_cast<float>(in[i]));
}

}  // namespace

void widen(DataType type, const std::byte* from, float* to, int64_t count) {
  auto* out = reinterpret_cast<std::byte*>(to);
  switch (type) {
    case DataType::kFloat:
      return convert_all<float, float>(from, out, count);
    case DataType::kFloat16:
      return convert_all<Float16, float>(from, out, count);
    case DataType::kBFloat16:
      return convert_all<BFloat16, float>(from, out, count);
    case DataType::kDouble:
      return convert_all<double, float>(from, out, count);
    default:
      fail_type(type);
  }
}

void narrow(DataType type, const float* from, std::byte* to, int64_t count) {
  const auto* in = reinterpret_cast<const std::byte*>(from);
  switch (type) {
    case DataType::kFloat:
      return convert_all<float, float>(in, to, count);
    case DataType::kFloat16:
      return convert_all<float, Float16>(in, to, count);
    case DataType::kBFloat16:
      return convert_all<float, BFloat16>(in, to, count);
    case DataType::kDouble:
      return convert_all<float, double>(in, to, count);
    default:
      fail_type(type);
  }
}

template <class T>
FloatView<T>::FloatView(const Tensor& tensor, BufferPool* pool) {
  const Tensor dense = tensor.to_contiguous(pool);
  if (dense.type() == kDataTypeOf<T>) {
    owner_ = dense;
  } else {
    owner_ = Tensor::allocate(kDataTypeOf<T>, dense.shape(), pool);
    T* to = owner_.mutable_data<T>();
    if constexpr (std::is_same_v<T, float>) {
      widen(dense.type(), dense.raw(), to, dense.count());
    } else {
      switch (dense.type()) {
        case DataType::kFloat:
          convert_to_double<float>(dense.raw(), to, dense.count());
          break;
        case DataType::kFloat16:
          convert_to_double<Float16>(dense.raw(), to, dense.count());
          break;
        case DataType::kBFloat16:
          convert_to_double<BFloat16>(dense.raw(), to, dense.count());
          break;
        default:
          fail_type(dense.type());
      }
    }
  }
  data_ = owner_.template data<T>();
}

template <class T>
FloatResult<T>::FloatResult(KernelCall& call, size_t output, DataType type, const Shape& shape)
    : output_(output), type_(type), shape_(shape), direct_(type == kDataTypeOf<T> && call.wants(output)) {
  // Hosts have memory for their outputs.
  Tensor& to = direct_ ? call.output(output, type, shape) : wide_;
  if (!direct_) wide_ = Tensor::allocate(kDataTypeOf<T>, shape, call.pool());
  data_ = to.template mutable_data<T>();
}

template <class T>
void FloatResult<T>::store(KernelCall& call) {
  if (!data_) return;
  data_ = nullptr;
  if (direct_) return;
  if (type_ == kDataTypeOf<T>) {
    call.set_output(output_, std::move(wide_));
  } else {
    Tensor& out = call.output(output_, type_, shape_);
    if constexpr (std::is_same_v<T, float>) {
      narrow(type_, wide_.template data<float>(), out.mutable_raw(), out.count());
    } else {
      const double* from = wide_.template data<double>();
      const std::vector<float> values(from, from + out.count());
      narrow(type_, values.data(), out.mutable_raw(), out.count());
    }
  }
}

template class FloatView<float>;
template class FloatView<double>;
template class FloatResult<float>;
template class FloatResult<double>;

InputAndOutput take_in_place(KernelCall& call, size_t i) {
  Tensor input = call.take(i).tensor().to_contiguous(call.pool());
  if (input.unique()) return {input, input};
  return {input, Tensor::allocate(input.type(), input.shape(), call.pool())};
}

}  // namespace attune
