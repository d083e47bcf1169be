// What the forms of an alignment share. Internal to pictures.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/picture/alignment.h"

namespace attune {

struct Colour {
  int red, green, blue;
};

// White (0) to dark blue (1).
Colour colour_of(float weight);
// Throws Error(kInvalidArgument) if a head's size isn't rows × columns, or there is no head.
void check(const AlignmentPicture& picture);
// Clamped to [0, 1]; 0 if it isn't finite.
float weight(const AlignmentPicture& picture, size_t head, size_t row, size_t column);
// The title and the head's name.
std::string title_of(const AlignmentPicture& picture, size_t head);
// alignment_json() with weights rounded to so many decimals; 0: as they are.
std::string alignment_json(const AlignmentPicture& picture, int decimals);

}  // namespace attune
