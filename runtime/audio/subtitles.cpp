#include "runtime/audio/subtitles.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "graph/error.h"
#include "graph/io/output_file.h"
#include "runtime/text/replace.h"

namespace attune {
namespace {

// One line or several, none of them empty: an empty one would end the cue.
std::string cue_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool blank = c == ' ' || c == '\t' || c == '\r' || c == '\n';
    if (blank && (out.empty() || out.back() == '\n')) continue;
    out += c == '\r' ? '\n' : c;
  }
  out.erase(out.find_last_not_of(" \t\n") + 1);
  return out;
}

std::string extension_of(const std::string& file) { return std::filesystem::path(file).extension().string(); }

}  // namespace

std::string clock_text(double seconds, bool hours, char point) {
  const auto all = static_cast<int64_t>(std::llround(seconds * 1000));
  const int64_t ms = all % 1000, s = all / 1000 % 60, m = all / 60000 % 60, h = all / 3600000;
  const std::string in_front = hours || h > 0 ? fmt::format("{:02}:", h) : std::string();
  return fmt::format("{}{:02}:{:02}{}{:03}", in_front, m, s, point, ms);
}

std::string subtitles_srt(const Transcript& transcript) {
  std::string out;
  size_t number = 0;
  for (const TranscriptSegment& s : transcript.segments) {
    std::string text = cue_text(s.text);
    if (text.empty()) continue;
    replace_all(text, "-->", "->");
    out += fmt::format("{}\n{} --> {}\n{}\n\n", ++number, clock_text(s.start, true, ','), clock_text(s.end, true, ','),
                       text);
  }
  return out;
}

std::string subtitles_vtt(const Transcript& transcript) {
  std::string out = "WEBVTT\n\n";
  for (const TranscriptSegment& s : transcript.segments) {
    std::string text = cue_text(s.text);
    if (text.empty()) continue;
    replace_all(text, "&", "&amp;");
    replace_all(text, "<", "&lt;");
    replace_all(text, ">", "&gt;");
    out += fmt::format("{} --> {}\n{}\n\n", clock_text(s.start), clock_text(s.end), text);
  }
  return out;
}

void check_subtitles_file(const std::string& file) {
  if (extension_of(file) != ".srt" && extension_of(file) != ".vtt")
    throw Error(Error::Kind::kInvalidArgument,
                fmt::format("{}: subtitles are written as .srt or .vtt, not '{}'", file, extension_of(file)));
}

void write_subtitles(const Transcript& transcript, const std::string& file) {
  check_subtitles_file(file);
  write_file(file, extension_of(file) == ".srt" ? subtitles_srt(transcript) : subtitles_vtt(transcript));
}

}  // namespace attune
