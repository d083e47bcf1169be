#include "runtime/source_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "runtime/rows.h"

namespace attune {
namespace {

[[noreturn]] void invalid(std::string message) { throw Error(Error::Kind::kInvalidArgument, std::move(message)); }

bool is_mask_name(const std::string& name) { return name.find("mask") != std::string::npos; }
bool is_length_name(const std::string& name) { return name.find("length") != std::string::npos; }
// Inputs of BERT's kind that have defaults: segment 0, and positions from 0.
bool is_segment_name(const std::string& name) { return name.find("token_type") != std::string::npos; }
bool is_position_name(const std::string& name) { return name.find("position") != std::string::npos; }
bool is_index(DataType type) { return type == DataType::kInt64 || type == DataType::kInt32; }

struct Ids {
  Tensor ids, mask;  // int64 (sources, length)
};

class Batcher {
 public:
  Batcher(const TensorMap& inputs, const std::vector<Plan::Port>& ports, const GenerationOptions& options)
      : inputs_(inputs), ports_(ports), options_(options), id_port_(find_id_port(ports)) {}

  std::vector<SourceBatch> run() {
    check_names();
    find_ids();
    std::vector<SourceBatch> batches;
    if (!ids_) {
      batches.push_back(features());
      return batches;
    }
    for (const auto& rows : groups()) batches.push_back(batch(rows));
    return batches;
  }

 private:
  const Tensor* given(const std::string& name) const {
    const auto it = inputs_.find(name);
    return it == inputs_.end() ? nullptr : &it->second.tensor();
  }

  static bool counts_columns(const Plan::Port& p) {
    return is_index(p.type.tensor.element) && p.type.tensor.rank() == 2 && !is_mask_name(p.name) &&
           !is_length_name(p.name);
  }

  // The port of the token ids: input_ids, or the first that could be it. Null if there is none.
  static const Plan::Port* find_id_port(const std::vector<Plan::Port>& ports) {
    const Plan::Port* first = nullptr;
    for (const Plan::Port& p : ports) {
      if (!counts_columns(p)) continue;
      if (p.name == "input_ids") return &p;
      if (!first && !is_segment_name(p.name) && !is_position_name(p.name)) first = &p;
    }
    return first;
  }

  // Ids and masks go by Hugging Face's names, too; a single input of another name is that of a single port.
  void check_names() const {
    for (const auto& [name, value] : inputs_) {
      const bool known =
          name == "input_ids" || name == "attention_mask" || inputs_.size() == 1 ||
          std::any_of(ports_.begin(), ports_.end(), [&name = name](const Plan::Port& p) { return p.name == name; });
      if (known) continue;
      std::vector<std::string> names;
      for (const Plan::Port& p : ports_) names.push_back(p.name);
      invalid(fmt::format("the encoder has no input '{}'; it has {}", name, fmt::join(names, ", ")));
    }
  }

  void find_ids() {
    const Tensor* ids = given("input_ids");
    const Tensor* mask = given("attention_mask");
    for (const Plan::Port& p : ports_) {
      if (is_mask_name(p.name) && given(p.name)) mask = given(p.name);
    }
    if (!id_port_) return;
    if (const Tensor* t = given(id_port_->name)) ids = t;
    if (!ids) invalid("no token ids are given (input_ids)");
    if (ids->rank() != 2)
      invalid(fmt::format("input_ids: expected shape (sources, length), got {}", ids->shape().to_string()));
    if (ids->dim(1) == 0)
      invalid(fmt::format("input_ids: expected a token or more of each source, got {}", ids->shape().to_string()));
    if (mask && !(mask->shape() == ids->shape()))
      invalid(fmt::format("attention_mask: expected shape {}, got {}", ids->shape().to_string(),
                          mask->shape().to_string()));
    const std::vector<int64_t> tokens = ids->to_int64();
    for (const int64_t token : tokens)
      if (token < 0) invalid(fmt::format("input_ids: expected token ids from 0, found {}", token));
    ids_ = Ids{Tensor::from<int64_t>(ids->shape(), tokens), {}};
    ids_->mask = mask ? Tensor::from<int64_t>(ids->shape(), mask->to_int64()) : mask_of_padding();
  }

  Tensor mask_of_padding() const {
    std::vector<int64_t> values = ids_->ids.to_int64();
    const auto& eos = options_.eos_token_id;
    const bool tells = options_.pad_token_id && std::find(eos.begin(), eos.end(), *options_.pad_token_id) == eos.end();
    for (int64_t& v : values) v = tells && v == *options_.pad_token_id ? 0 : 1;
    return Tensor::from<int64_t>(ids_->ids.shape(), values);
  }

  bool takes_mask() const {
    return std::any_of(ports_.begin(), ports_.end(), [](const Plan::Port& p) {
      return is_mask_name(p.name) || (is_length_name(p.name) && p.type.tensor.rank() == 1);
    });
  }

  // Positions up to the last that is real.
  int64_t real_length(int64_t row) const {
    const int64_t width = ids_->mask.dim(1);
    const int64_t* m = ids_->mask.data<int64_t>() + row * width;
    int64_t length = width;
    while (length > 1 && m[length - 1] == 0) --length;
    return length;
  }

  std::vector<std::vector<int32_t>> groups() const {
    std::map<int64_t, std::vector<int32_t>> by_length;
    for (int64_t row = 0; row < ids_->ids.dim(0); ++row)
      by_length[takes_mask() ? 0 : real_length(row)].push_back(static_cast<int32_t>(row));
    std::vector<std::vector<int32_t>> out;
    for (auto& [length, rows] : by_length) out.push_back(std::move(rows));
    return out;
  }

  // Rows of an (all sources, length) tensor, cut to `width` columns.
  static Tensor cut(const Tensor& from, const std::vector<int32_t>& rows, int64_t width) {
    std::vector<int64_t> values;
    for (const int32_t row : rows) {
      const int64_t* begin = from.data<int64_t>() + row * from.dim(1);
      values.insert(values.end(), begin, begin + width);
    }
    return Tensor::from<int64_t>({static_cast<int64_t>(rows.size()), width}, values);
  }

  static Tensor as_type(const Tensor& t, DataType type) {
    if (t.type() == type) return t;
    const auto values = t.to_double();
    Tensor out = Tensor::allocate(type, t.shape());
    dispatch<int64_t, int32_t, bool, float>(type, [&]<class T>() {
      std::transform(values.begin(), values.end(), out.mutable_data<T>(), [](double v) { return static_cast<T>(v); });
    });
    return out;
  }

  SourceBatch batch(const std::vector<int32_t>& rows) const {
    int64_t width = 0;
    for (const int32_t row : rows) width = std::max(width, real_length(row));
    SourceBatch out;
    out.has_ids = true;
    out.sources.assign(rows.begin(), rows.end());
    out.mask = cut(ids_->mask, rows, width);
    const Tensor ids = cut(ids_->ids, rows, width);
    for (size_t i = 0; i < rows.size(); ++i) {
      const size_t begin = i * static_cast<size_t>(width);
      out.ids.emplace_back();
      for (size_t c = begin; c < begin + static_cast<size_t>(width); ++c)
        if (out.mask.data<int64_t>()[c] != 0) out.ids.back().push_back(ids.data<int64_t>()[c]);
    }
    std::vector<int64_t> lengths;
    for (const int32_t row : rows) lengths.push_back(real_length(row));
    for (const Plan::Port& p : ports_) {
      const DataType type = p.type.tensor.element;
      if (&p == id_port_) {
        out.encoder_inputs.push_back(as_type(ids, type));
      } else if (is_mask_name(p.name)) {
        out.encoder_inputs.push_back(as_type(out.mask, type));
      } else if (is_length_name(p.name) && p.type.tensor.rank() == 1) {
        out.encoder_inputs.push_back(
            as_type(Tensor::from<int64_t>({static_cast<int64_t>(rows.size())}, lengths), type));
      } else if (const Tensor* t = given(p.name)) {
        out.encoder_inputs.push_back(other_input(p, *t, rows, width));
      } else if (counts_columns(p) && (is_segment_name(p.name) || is_position_name(p.name))) {
        out.encoder_inputs.push_back(as_type(default_columns(is_position_name(p.name), rows.size(), width), type));
      } else {
        out.encoder_inputs.push_back({});  // a whole model's own, or reported by the session
      }
    }
    return out;
  }

  // An input beside ids and mask; one of (sources, length) loses columns as they do.
  Datum other_input(const Plan::Port& p, const Tensor& t, const std::vector<int32_t>& rows, int64_t width) const {
    if (t.rank() == 0) return t;
    const int64_t count = ids_->ids.dim(0);
    if (t.dim(0) != count)
      invalid(fmt::format("{}: expected {} sources on the first axis, as input_ids has, got shape {}", p.name, count,
                          t.shape().to_string()));
    if (!counts_columns(p) || !(t.shape() == ids_->ids.shape())) return gather_rows(t, rows, nullptr);
    return as_type(cut(Tensor::from<int64_t>(t.shape(), t.to_int64()), rows, width), p.type.tensor.element);
  }

  static Tensor default_columns(bool positions, size_t rows, int64_t width) {
    std::vector<int64_t> values;
    for (size_t i = 0; i < rows; ++i)
      for (int64_t c = 0; c < width; ++c) values.push_back(positions ? c : 0);
    return Tensor::from<int64_t>({static_cast<int64_t>(rows), width}, values);
  }

  // A mask that isn't given hides nothing: its shape is that of the features' first axes.
  Datum feature_mask(const Plan::Port& p) const {
    const Tensor* mask = given(p.name);
    const DataType type = p.type.tensor.element;
    if (mask) return as_type(*mask, type);
    const size_t rank = p.type.tensor.has_rank() ? p.type.tensor.shape->size() : 2;
    for (const auto& [name, datum] : inputs_) {
      const Shape& shape = datum.tensor().shape();
      if (is_mask_name(name) || shape.rank() < rank) continue;
      Shape own;
      for (size_t axis = 0; axis < rank; ++axis) own.push_back(shape[axis]);
      const std::vector<int64_t> ones(static_cast<size_t>(own.count()), 1);
      return as_type(Tensor::from<int64_t>(own, ones), type);
    }
    return {};
  }

  SourceBatch features() const {
    SourceBatch out;
    const Tensor* most = nullptr;  // the one of most axes, whose first counts the sources
    for (const Plan::Port& p : ports_) {
      if (is_mask_name(p.name)) {
        out.encoder_inputs.push_back(feature_mask(p));
        continue;
      }
      const Tensor* t = given(p.name);
      if (!t && inputs_.size() == 1) t = &inputs_.begin()->second.tensor();
      out.encoder_inputs.push_back(t ? Datum(*t) : Datum());
      if (t && t->rank() > (most ? most->rank() : 0)) most = t;
    }
    out.sources.resize(most ? static_cast<size_t>(most->dim(0)) : 0);
    std::iota(out.sources.begin(), out.sources.end(), size_t{0});
    return out;
  }

  const TensorMap& inputs_;
  const std::vector<Plan::Port>& ports_;
  const GenerationOptions& options_;
  const Plan::Port* id_port_;
  std::optional<Ids> ids_;
};

}  // namespace

std::vector<SourceBatch> make_batches(const TensorMap& inputs, const std::vector<Plan::Port>& ports,
                                      const GenerationOptions& options) {
  return Batcher(inputs, ports, options).run();
}

}  // namespace attune
