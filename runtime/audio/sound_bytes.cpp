#include "runtime/audio/sound_bytes.h"

#include <array>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

namespace attune {
namespace {

// Programs that write a stream put 0 for a size that they don't know, or nearly the largest that a signed or an
// unsigned number of 32 bits can hold.
constexpr uint64_t kLeastUnknown = 0x7FF00000;

class Header {
 public:
  explicit Header(const std::filesystem::path& file) : in_(file, std::ios::binary) {
    std::error_code error;
    const auto size = std::filesystem::file_size(file, error);
    size_ = error ? 0 : size;
  }

  std::optional<SoundBytes> sound() {
    const std::string id = text(0);
    if (id == ".snd") return promised(number(8, 4, true), number(4, 4, true));
    if (id == "FORM") return in_chunks("SSND", true, 8);  // an offset and a block size come before the sound
    if (id == "RIFX") return in_chunks("data", true, 0);
    if (id == "RIFF" || id == "RF64") return in_chunks("data", false, 0);
    if (id == "riff") return in_long_chunks();
    return std::nullopt;
  }

 private:
  std::optional<SoundBytes> in_chunks(std::string_view wanted, bool big_endian, uint64_t before) {
    constexpr uint64_t kFirstChunk = 12, kChunkHeader = 8;
    uint64_t long_size = 0;
    for (uint64_t at = kFirstChunk; at + kChunkHeader <= size_;) {
      const std::string id = text(at);
      const uint64_t size = number(at + 4, 4, big_endian), begin = at + kChunkHeader;
      if (id == "ds64") long_size = number(begin + 8, 8, big_endian);
      if (id == wanted) {
        if (long_size > 0 && size == UINT32_MAX) return SoundBytes{long_size, size_ - begin};
        return size < before ? std::nullopt : promised(size - before, begin + before);
      }
      at = begin + size + size % 2;
    }
    return std::nullopt;
  }

  // Wave64: names have 16 bytes, sizes 8 and count their headers, too, and chunks begin at multiples of 8.
  std::optional<SoundBytes> in_long_chunks() {
    constexpr uint64_t kFirstChunk = 40, kName = 16, kChunkHeader = 24, kUnknown = uint64_t{1} << 62;
    for (uint64_t at = kFirstChunk; at + kChunkHeader <= size_;) {
      const uint64_t size = number(at + kName, 8, false), begin = at + kChunkHeader;
      if (size < kChunkHeader || size >= kUnknown) return std::nullopt;
      if (text(at) == "data" && size > kChunkHeader) return SoundBytes{size - kChunkHeader, size_ - begin};
      at += (size + 7) / 8 * 8;
    }
    return std::nullopt;
  }

  std::optional<SoundBytes> promised(uint64_t bytes, uint64_t begin) const {
    if (bytes == 0 || bytes >= kLeastUnknown) return std::nullopt;
    return SoundBytes{bytes, begin < size_ ? size_ - begin : 0};
  }

  std::string text(uint64_t at) {
    std::string bytes(4, '\0');
    read(at, bytes);
    return bytes;
  }

  uint64_t number(uint64_t at, size_t size, bool big_endian) {
    std::array<char, 8> bytes{};
    read(at, std::span(bytes).first(size));
    uint64_t value = 0;
    for (size_t i = 0; i < size; ++i)
      value = value << 8 | static_cast<unsigned char>(bytes[big_endian ? i : size - 1 - i]);
    return value;
  }

  // What lies behind the end stays as it is.
  void read(uint64_t at, std::span<char> to) {
    in_.clear();
    in_.seekg(static_cast<std::streamoff>(at));
    in_.read(to.data(), static_cast<std::streamsize>(to.size()));
  }

  std::ifstream in_;
  uint64_t size_ = 0;
};

}  // namespace

std::optional<SoundBytes> sound_bytes(const std::filesystem::path& file) { return Header(file).sound(); }

}  // namespace attune
