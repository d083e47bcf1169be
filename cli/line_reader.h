// Lines of a text.
#pragma once

#include <cstdint>
#include <istream>
#include <string>

namespace attune::cli {

// Lines end with "\n" or "\r\n"; UTF-8's byte order mark at the beginning is no part of the first.
class LineReader {
 public:
  explicit LineReader(std::istream& in) : in_(in) {}
  // False at the end.
  bool next(std::string& line) {
    constexpr const char* kByteOrderMark = "\xef\xbb\xbf";
    if (!std::getline(in_, line)) return false;
    bytes_ += line.size() + 1;
    if (++number_ == 1 && line.starts_with(kByteOrderMark)) line.erase(0, 3);
    if (line.ends_with('\r')) line.pop_back();
    return true;
  }
  bool failed() const { return in_.bad(); }
  size_t number() const { return number_; }   // of the last line, from 1
  uintmax_t bytes() const { return bytes_; }  // read so far

 private:
  std::istream& in_;
  size_t number_ = 0;
  uintmax_t bytes_ = 0;
};

}  // namespace attune::cli
