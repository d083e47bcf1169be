// What mutated sources of passes/ ask: which condition does not hold (ATTUNE_MUTANT=N). Writes which conditions hold in
// each test, line by line, to the file ATTUNE_HELD.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>

namespace {

std::array<bool, 10000> held;

class Listener : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo&) override { held.fill(false); }
  void OnTestEnd(const testing::TestInfo& test) override {
    std::fprintf(file_, "%s.%s", test.test_suite_name(), test.name());
    for (size_t n = 0; n < held.size(); ++n)
      if (held[n]) std::fprintf(file_, " %zu", n);
    std::fprintf(file_, "\n");
    std::fflush(file_);
  }

  std::FILE* file_ = std::fopen(std::getenv("ATTUNE_HELD"), "w");
};

const bool kRecords = [] {
  const bool records = std::getenv("ATTUNE_HELD") != nullptr;
  if (records) testing::UnitTest::GetInstance()->listeners().Append(new Listener);
  return records;
}();

}  // namespace

// Whether condition number `n`, which holds or not, leads to a refusal.
bool attune_refuses(size_t n, bool holds) {
  static const char* const kMutant = std::getenv("ATTUNE_MUTANT");
  static const size_t kOff = kMutant ? std::strtoul(kMutant, nullptr, 10) : held.size();
  if (holds) held[n] = true;
  return holds && n != kOff;
}
