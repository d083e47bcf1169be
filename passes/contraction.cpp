#include "passes/contraction.h"

#include <algorithm>

#include "passes/attention_node.h"

namespace attune {
namespace {

using pattern::Builder;

bool has(const std::string& labels, char c) { return labels.find(c) != std::string::npos; }

bool distinct(std::string labels) {
  std::sort(labels.begin(), labels.end());
  return std::adjacent_find(labels.begin(), labels.end()) == labels.end();
}

// Letters by where they are.
struct Roles {
  std::string batch, left, right, inner;
};

std::optional<Roles> roles_of(const std::string& left, const std::string& right, const std::string& result) {
  if (!distinct(left) || !distinct(right) || !distinct(result)) return std::nullopt;
  Roles r;
  for (const char c : result) {
    const bool l = has(left, c), in_right = has(right, c);
    if (!l && !in_right) return std::nullopt;
    (l && in_right ? r.batch : l ? r.left : r.right) += c;
  }
  for (const char c : left)
    if (!has(result, c)) r.inner += c;
  for (const char c : right)
    if (!has(result, c) && !has(left, c)) return std::nullopt;  // summed on its own
  for (const char c : r.inner)
    if (!has(right, c)) return std::nullopt;
  // Products of pairs, without rows or columns, are no matrix product.
  return r.inner.empty() || (r.left.empty() && r.right.empty()) ? std::nullopt : std::optional(r);
}

// Whether an axis of size 1 may stand for a longer one, as Einsum lets it.
bool are_broadcast(const Labelled& left, const Labelled& right) {
  for (size_t i = 0; i < left.labels.size(); ++i) {
    const size_t j = right.labels.find(left.labels[i]);
    if (j == std::string::npos) continue;
    const TensorType &x = left.value->tensor_type(), &y = right.value->tensor_type();
    if (!may_be_equal(x.dim(static_cast<int>(i)), y.dim(static_cast<int>(j)))) return true;
  }
  return false;
}

Value* reordered(Builder& b, Value* x, const std::string& from, const std::string& to) {
  std::vector<int64_t> perm;
  for (const char c : to) perm.push_back(static_cast<int64_t>(from.find(c)));
  return std::is_sorted(perm.begin(), perm.end()) ? x : b.transpose(x, perm);
}

// Rows of `left` times a constant: letters that are summed, and letters of the result, are one axis each of a matrix.
Value* times_constant(Builder& b, const Labelled& left, const Labelled& right, const Roles& roles,
                      const std::string& result) {
  std::vector<int64_t> sizes;  // of the constant's own letters
  for (const char c : roles.right) sizes.push_back(right.value->constant()->shape()[right.labels.find(c)]);
  Value* matrix = reordered(b, right.value, right.labels, roles.inner + roles.right);
  int64_t width = 1;
  for (const int64_t size : sizes) width *= size;
  matrix = b.reshape(matrix, {-1, width});
  Value* rows = reordered(b, left.value, left.labels, roles.left + roles.inner);
  std::vector<int64_t> target(roles.left.size(), 0);
  if (roles.inner.size() > 1) {
    target.push_back(-1);
    rows = b.reshape(rows, target);
    target.pop_back();
  }
  Value* product = b.op("MatMul", {rows, matrix});
  target.insert(target.end(), sizes.begin(), sizes.end());
  if (sizes.size() != 1) product = b.reshape(product, target);
  return reordered(b, product, roles.left + roles.right, result);
}

// Groups of rows (B, r, T, E) of `left` times the one matrix (B, E, S) of each batch.
Value* times_matrix_of_groups(Builder& b, const Labelled& left, const Labelled& right, const Roles& roles,
                              const std::string& result) {
  std::string own = roles.left;
  if (result != roles.batch + own + roles.right)  // a transpose of the product anyway, so none of the operand
    std::sort(own.begin(), own.end(), [&](char a, char c) { return left.labels.find(a) < left.labels.find(c); });
  Value* rows = reordered(b, left.value, left.labels, roles.batch + own + roles.inner);
  Value* columns = reordered(b, right.value, right.labels, roles.batch + roles.inner + roles.right);
  Value* product = b.op("MatMul", {rows, b.unsqueeze(columns, {static_cast<int64_t>(roles.batch.size())})});
  return reordered(b, product, roles.batch + own + roles.right, result);
}

}  // namespace

Value* contract(Builder& b, Labelled left, Labelled right, const std::string& result) {
  auto roles = roles_of(left.labels, right.labels, result);
  if (!roles || are_broadcast(left, right)) return nullptr;
  const bool row_is_right = roles->batch.empty() ? !right.value->constant() && right.labels.size() > left.labels.size()
                                                 : roles->right.empty() && !roles->left.empty();
  // Scores that are written as a product of keys and queries.
  const bool rows_first =
      !roles->batch.empty() && !roles->left.empty() && result == roles->batch + roles->right + roles->left;
  if (row_is_right || rows_first) {
    std::swap(left, right);
    std::swap(roles->left, roles->right);
  }
  const std::string &batch = roles->batch, &inner = roles->inner;
  if (batch.empty() && right.value->constant() && right.value->constant()->count() > 0 &&
      (inner.size() > 1 || roles->right.size() > 1))
    return times_constant(b, left, right, *roles, result);
  if (!batch.empty() && roles->left.size() == 2 && roles->right.size() == 1 && inner.size() == 1)
    return times_matrix_of_groups(b, left, right, *roles, result);
  // Without a batch the left operand may have any rank: its rows are multiplied by one matrix.
  if (inner.size() != 1 || roles->right.size() > 1 || (!batch.empty() && roles->left.size() > 1)) return nullptr;
  const auto last = static_cast<int64_t>(batch.size());
  Value* rows = reordered(b, left.value, left.labels, batch + roles->left + inner);
  if (roles->left.empty()) rows = b.unsqueeze(rows, {last});
  Value* columns = reordered(b, right.value, right.labels, batch + inner + roles->right);
  if (roles->right.empty()) columns = b.unsqueeze(columns, {last + 1});
  Value* product = b.op("MatMul", {rows, columns});
  if (roles->right.empty()) product = b.squeeze(product, {-1});
  if (roles->left.empty()) product = b.squeeze(product, {last});
  return reordered(b, product, batch + roles->left + roles->right, result);
}

}  // namespace attune
