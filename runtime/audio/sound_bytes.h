// How much sound the header of a file promises. Internal to reading audio.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace attune {

struct SoundBytes {
  uint64_t promised = 0, held = 0;
};

// Of WAVE (RIFF, RIFX, RF64), AIFF and AU files. Nothing for others, and where the size was not known when the header
// was written (a stream).
std::optional<SoundBytes> sound_bytes(const std::filesystem::path& file);

}  // namespace attune
