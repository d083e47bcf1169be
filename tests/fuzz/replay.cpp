// Runs a fuzz target without a fuzzer: on each seed, and on mutations of it that are the same every time.
//   PROGRAM FOLDER MUTATIONS
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;

Bytes read(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void mutate(Bytes& bytes, std::mt19937& random) {
  const auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  for (size_t changes = 1 + below(4); changes > 0 && !bytes.empty(); --changes) {
    const size_t at = below(bytes.size());
    const auto position = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    switch (below(5)) {
      case 0:
        bytes[at] = static_cast<uint8_t>(bytes[at] ^ (1U << below(8)));
        break;
      case 1:
        bytes[at] = static_cast<uint8_t>(below(256));
        break;
      case 2:
        bytes.resize(at);
        break;
      case 3:
        bytes.erase(position);
        break;
      default: {
        const Bytes piece(position, position + static_cast<std::ptrdiff_t>(1 + below(bytes.size() - at)));
        bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(below(bytes.size())), piece.begin(), piece.end());
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: " << argv[0] << " FOLDER MUTATIONS\n";
    return 2;
  }
  const int mutations = std::stoi(argv[2]);
  std::mt19937 random(1);
  size_t seeds = 0;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    const Bytes seed = read(entry.path());
    LLVMFuzzerTestOneInput(seed.data(), seed.size());
    for (int i = 0; i < mutations; ++i) {
      Bytes bytes = seed;
      mutate(bytes, random);
      LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    }
    ++seeds;
  }
  std::cout << seeds << " seeds, " << mutations << " mutations of each\n";
  return seeds == 0;
}
