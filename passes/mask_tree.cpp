#include "passes/mask_tree.h"

#include <fmt/format.h>

#include <cmath>

namespace attune {

std::string MaskAtom::key() const {
  if (!input) return "e" + expression.to_string();
  return fmt::format("i{}{}", static_cast<const void*>(input), to_string(indices));
}

std::vector<MaskAtom> MaskTree::atoms(const MaskTreePtr& tree) {
  std::map<std::string, MaskAtom> found;
  const std::function<void(const MaskTreePtr&)> visit = [&](const MaskTreePtr& t) {
    if (!t->atom) return;
    found.emplace(t->atom->key(), *t->atom);
    visit(t->yes);
    visit(t->no);
  };
  visit(tree);
  std::vector<MaskAtom> out;
  for (auto& [key, atom] : found) out.push_back(std::move(atom));
  return out;
}

std::vector<double> MaskTree::leaves(const MaskTreePtr& tree) {
  if (!tree->atom) return {tree->leaf};
  std::vector<double> out = leaves(tree->yes), rest = leaves(tree->no);
  out.insert(out.end(), rest.begin(), rest.end());
  return out;
}

double MaskTree::evaluate(const MaskTreePtr& tree, const std::map<std::string, bool>& answers) {
  const MaskTree* t = tree.get();
  while (t->atom) t = (answers.at(t->atom->key()) ? t->yes : t->no).get();
  return t->leaf;
}

MaskTreePtr make_leaf(double value) {
  auto t = std::make_shared<MaskTree>();
  t->leaf = value;
  return t;
}

namespace {

bool equal(const MaskTreePtr& a, const MaskTreePtr& b) {
  if (a == b) return true;
  if (a->atom.has_value() != b->atom.has_value()) return false;
  if (!a->atom) return a->leaf == b->leaf || (std::isnan(a->leaf) && std::isnan(b->leaf));
  return a->atom->key() == b->atom->key() && equal(a->yes, b->yes) && equal(a->no, b->no);
}

}  // namespace

MaskTreePtr make_node(const MaskAtom& atom, MaskTreePtr yes, MaskTreePtr no) {
  if (equal(yes, no)) return yes;
  auto t = std::make_shared<MaskTree>();
  t->atom = atom;
  t->yes = std::move(yes);
  t->no = std::move(no);
  return t;
}

MaskTreePtr combine(const std::vector<MaskTreePtr>& trees, const std::function<double(const std::vector<double>&)>& f) {
  const MaskAtom* first = nullptr;
  std::string first_key;
  for (const auto& t : trees) {
    if (!t->atom) continue;
    const std::string key = t->atom->key();
    if (!first || key < first_key) {
      first = &*t->atom;
      first_key = key;
    }
  }
  if (!first) {
    std::vector<double> leaves;
    for (const auto& t : trees) leaves.push_back(t->leaf);
    return make_leaf(f(leaves));
  }
  std::vector<MaskTreePtr> yes, no;
  for (const auto& t : trees) {
    const bool asks = t->atom && t->atom->key() == first_key;
    yes.push_back(asks ? t->yes : t);
    no.push_back(asks ? t->no : t);
  }
  return make_node(*first, combine(yes, f), combine(no, f));
}

size_t size_of(const MaskTreePtr& t) { return t->atom ? 1 + size_of(t->yes) + size_of(t->no) : 1; }

}  // namespace attune
