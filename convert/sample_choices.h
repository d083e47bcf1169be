// Sizes of made-up inputs, in the order in which they are tried.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "convert/sample_inputs.h"
#include "convert/sample_sizes.h"
#include "graph/graph.h"

namespace attune {

// Sizes for each symbol: all one; then small ones that differ from symbol to symbol, so that none is taken for another.
// Masks with all kinds of padding, flags both ways.
std::vector<SampleChoice> usual_choices(const std::vector<SampleInput>& inputs,
                                        const std::vector<std::string>& symbols);
// Sizes of which the source may broadcast some: of the symbols of `strict` that `loose` makes the same, each in turn is
// 1 beside others that aren't. `strict` holds the sizes that operators need, `loose`, too, that those broadcast are the
// same.
std::vector<SampleChoice> broadcast_choices(const SampleForm& strict, const SampleForm& loose);
// Sizes that exports with fixed relations between dimensions may take: all symbols the same. Many symbols have large
// sizes: a tensor of several of them would be huge.
SampleChoice equal_sizes(SampleChoice c);
// The choice with signals `factor` times as long: every axis but the first of float inputs. Nothing if the inputs would
// be large.
std::optional<SampleChoice> stretched(SampleChoice c, const std::vector<SampleInput>& inputs, int64_t factor);
// Every assignment to the symbols of the numbers that shapes are computed with, which an export with fixed lengths may
// ask for, as long as they are not too many. Few different sizes first.
std::vector<SampleChoice> fixed_choices(const std::vector<std::string>& symbols, const Model& model);

}  // namespace attune
