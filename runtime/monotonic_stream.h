// Decoding while the source still arrives, with monotonic attention: the decoder reads as far as it has to, and what
// lies behind it is dropped. Memory is bounded by the attention's `chunk` and the largest piece (and, with several
// heads, by how far they are apart), whatever the length of the source.
//
//   MonotonicStream stream(step_model, {.states = {{"hidden", "next_hidden"}}});
//   auto outputs = stream.step({{"token", token}});
//   while (!outputs) {                       // some head found nothing yet
//     stream.append({{"memory", piece}});    // or stream.finish(), at the end of the source
//     outputs = stream.resume();
//   }
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "runtime/session.h"

namespace attune {

struct MonotonicStreamOptions {
  std::map<std::string, std::string> states = {};  // input: the output of the step before that it takes
  SessionOptions session = {};
  KernelOptions kernels = {};
};

// One source. The model is one step of a decoder, for one query: all that reads the source are nodes
// ai.attune::Attention of alignment `monotonic`, whose keys and values are inputs of the graph (1, T, D) or
// (1, G, T, E), projected inside the node or not at all, whose position is an input (1, H) and whose next_position is
// an output of the graph. They have no past, mask, key_lengths, causal or window: these count from the start of the
// source.
class MonotonicStream {
 public:
  // Throws Error(kUnsupported) that names the node and what it has that streams can't, Error(kInvalidArgument) for
  // states that aren't there, and as Plan::compile.
  explicit MonotonicStream(const Model& step, const MonotonicStreamOptions& options = {});
  ~MonotonicStream();
  MonotonicStream(MonotonicStream&&) noexcept;
  MonotonicStream& operator=(MonotonicStream&&) noexcept;
  // Another source, at its beginning, over the same plan and weights; to be used by another thread if need be.
  MonotonicStream replica() const;

  // The next piece of the source: n >= 0 more positions of each input that holds it. Drops what no step can read again.
  // Throws Error(kInvalidArgument) for wrong names, types and shapes, and after finish().
  void append(const TensorMap& piece);
  // No more comes.
  void finish();

  // One step. `inputs`: those of the model but the source, positions and states; a state may be among them (at the
  // first step, else it is zeros), and takes the place of what the step before gave. Gives the outputs; nothing if a
  // head has found no position in what there is of the source: then append() or finish(), and resume(). At the end of
  // the source such heads give context 0, as they do in a single call. Throws Error(kInvalidArgument) while a step
  // waits, and as Session::run.
  std::optional<TensorMap> step(TensorMap inputs);
  // Goes on with the step that waits. Throws Error(kInvalidArgument) if none does.
  std::optional<TensorMap> resume();

  // Positions are counted from the start of the source.
  int64_t read() const;        // how many were appended
  int64_t first_held() const;  // the first that is still held; weights outputs start here
  // True if each head has come to the end of the finished source: steps from now on attend to nothing.
  bool at_end() const;
  // Memory of tensors at most in use so far, in bytes.
  size_t peak_bytes() const;

 private:
  struct Impl;
  explicit MonotonicStream(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace attune
