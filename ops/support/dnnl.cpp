#include "ops/support/dnnl.h"

#include <omp.h>

#include "ops/support/dnnl_internal.h"
#include "ops/support/host_threads.h"

namespace attune::onednn {

// Never destroyed: kernels may outlive static objects.
const dnnl::engine& engine() {
  static const auto* e = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *e;
}

dnnl::stream& stream() {
  thread_local dnnl::stream s(engine());
  return s;
}

dnnl::primitive_attr base_attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

int threads() { return on_host_threads() || omp_in_parallel() ? 1 : omp_get_max_threads(); }

ThreadLimit::ThreadLimit() {
  if (!on_host_threads() || omp_get_max_threads() == 1) return;
  before_ = omp_get_max_threads();
  omp_set_num_threads(1);
}

ThreadLimit::~ThreadLimit() {
  if (before_ > 0) omp_set_num_threads(before_);
}

namespace {

dnnl::memory::data_type type_of(DataType type) {
  using T = dnnl::memory::data_type;
  switch (type) {
    case DataType::kFloat:
      return T::f32;
    case DataType::kFloat16:
      return T::f16;
    case DataType::kBFloat16:
      return T::bf16;
    case DataType::kInt32:
      return T::s32;
    case DataType::kInt8:
      return T::s8;
    case DataType::kUInt8:
      return T::u8;
    default:
      throw Error(Error::Kind::kInternal, fmt::format("oneDNN has no type {}", name(type)));
  }
}

dnnl::memory::dims dims_of(const Shape& shape) { return {shape.begin(), shape.end()}; }

dnnl::memory::desc describe(const Operand& o) { return {dims_of(o.sizes), type_of(o.type), dims_of(o.strides)}; }

}  // namespace

std::string version() {
  const dnnl_version_t* v = dnnl_version();
  return fmt::format("{}.{}.{}", v->major, v->minor, v->patch);
}

bool has_exact_int8() {
  static const bool exact = [] {
    switch (dnnl::get_effective_cpu_isa()) {
      case dnnl::cpu_isa::isa_default:
      case dnnl::cpu_isa::sse41:
      case dnnl::cpu_isa::avx:
      case dnnl::cpu_isa::avx2:
      case dnnl::cpu_isa::avx512_core:
        return false;
      default:
        return true;
    }
  }();
  return exact;
}

Shape dense_strides(const Shape& sizes) {
  Shape strides = sizes;
  int64_t step = 1;
  for (size_t i = sizes.rank(); i-- > 0;) {
    strides[i] = step;
    step *= std::max<int64_t>(sizes[i], 1);
  }
  return strides;
}

struct MatMul::Impl {
  dnnl::matmul::primitive_desc desc;
  dnnl::matmul primitive;
  std::string implementation;
};

MatMul::MatMul(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
MatMul::~MatMul() = default;

std::shared_ptr<const MatMul> MatMul::make(const MatMulSpec& spec) {
  return guarded("matmul", [&]() -> std::shared_ptr<const MatMul> {
    const ThreadLimit limit;
    dnnl::matmul::primitive_desc desc(engine(), describe(spec.a), describe(spec.b), describe(spec.c), base_attributes(),
                                      /*allow_empty=*/true);
    if (!desc || is_reference(desc.impl_info_str())) return nullptr;
    auto impl = std::make_unique<Impl>(Impl{desc, dnnl::matmul(desc), desc.impl_info_str()});
    return std::shared_ptr<const MatMul>(new MatMul(std::move(impl)));
  });
}

void MatMul::run(const void* a, const void* b, void* c, BufferPool* pool) const {
  guarded("matmul", [&] {
    const ThreadLimit limit;
    const auto scratch_desc = impl_->desc.scratchpad_desc();
    const BufferRef memory = scratch(scratch_desc.get_size(), pool);
    impl_->primitive.execute(stream(), {{DNNL_ARG_SRC, wrap(impl_->desc.src_desc(), a)},
                                        {DNNL_ARG_WEIGHTS, wrap(impl_->desc.weights_desc(), b)},
                                        {DNNL_ARG_DST, wrap(impl_->desc.dst_desc(), c)},
                                        {DNNL_ARG_SCRATCHPAD, wrap(scratch_desc, address(memory))}});
    stream().wait();
  });
}

const std::string& MatMul::implementation() const { return impl_->implementation; }

std::shared_ptr<const MatMul> find_matmul(MatMulCache& cache, MatMulSpec spec) {
  spec.threads = threads();
  return cache.get(spec, [&] { return MatMul::make(spec); });
}

}  // namespace attune::onednn
