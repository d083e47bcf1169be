// Transcripts as subtitles.
#pragma once

#include <string>

#include "runtime/audio/transcriber.h"

namespace attune {

// "01:02.340", "3:01:02,340": minutes, seconds and thousandths; hours if there are any, or `hours`.
std::string clock_text(double seconds, bool hours = false, char point = '.');

// SubRip and WebVTT: one cue for each segment that has text.
std::string subtitles_srt(const Transcript& transcript);
std::string subtitles_vtt(const Transcript& transcript);

// Throws Error(kInvalidArgument) for a file that doesn't end in .srt or .vtt.
void check_subtitles_file(const std::string& file);
// Writes the form that the file's extension names (to a temporary name, then renamed). Throws as above, and Error(kIo).
void write_subtitles(const Transcript& transcript, const std::string& file);

}  // namespace attune
