// What generate and bench read: token ids and features from files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/session.h"

namespace attune::cli {

// Token ids: an .npy file of integers (sources, length) or (length), or text with one source a line, ids separated by
// blanks or commas. Shorter lines are padded; the mask says so. Gives input_ids and attention_mask.
TensorMap read_ids(const std::filesystem::path& file);
// Inputs of the encoder by name, from an .npz file.
TensorMap read_named(const std::filesystem::path& file);

// Row `row` of a tensor, as a batch of one.
Tensor row_of(const Tensor& tensor, int64_t row);

}  // namespace attune::cli
